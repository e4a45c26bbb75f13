"""The model of the HTML page: what each block of the templates shows, as plain values."""
