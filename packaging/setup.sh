# Read by ./try, ./check and packaging/sbom, not run: finds a Python and makes a virtual environment with it.

# python_at FOLDER: make the virtual environment FOLDER unless it is there and works.
python_at() {
    if "$1/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    for python in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "    $1 gets $("$python" --version)" >&2
            if "$python" -m venv --clear "$1"; then
                return
            fi
            echo "error: $python cannot make a virtual environment (on Debian: apt-get install python3-venv)" >&2
            exit 1
        fi
    done
    echo "error: no Python 3.11 or newer on the PATH" >&2
    exit 1
}
