"""Secrets of many families, each in a form in which logs, dumps, settings and names of files carry one."""

from __future__ import annotations

from collections.abc import Mapping

_LETTERS = "HorseBatteryStapleCorrectMagnetX"
"""No letters drawn at random, which are masked without a name or a shape."""


def _filler(number: int, length: int) -> str:
    """Letters and digits that no other planted secret has."""
    return (f"{number:02d}zQ" + _LETTERS * (length // len(_LETTERS) + 1))[:length]


def _hex(number: int, length: int) -> str:
    return (f"{number:02d}" + "a1b2c3d4e5f60798" * (length // 16 + 1))[:length]


TOKENS: Mapping[str, str] = {
    "GitHub": "ghp" + "_" + _filler(1, 36),
    "GitHub, fine": "github" + "_pat_" + _filler(2, 60),
    "GitLab": "glpat" + "-" + _filler(3, 20),
    "Hugging Face": "hf" + "_" + _filler(4, 34),
    "OpenAI": "sk" + "-proj-" + _filler(5, 48),
    "Anthropic": "sk" + "-ant-" + _filler(6, 48),
    "AWS": "AKIA" + _filler(7, 16).upper(),
    "Google": "AIza" + _filler(8, 35),
    "Google, access": "ya29" + "." + _filler(9, 60),
    "Slack": "xox" + "b-" + _filler(10, 40),
    "Stripe": "sk" + "_live_" + _filler(11, 24),
    "SendGrid": "SG" + "." + _filler(12, 22) + "." + _filler(12, 43),
    "npm": "npm" + "_" + _filler(13, 36),
    "PyPI": "pypi" + "-" + _filler(14, 80),
    "Databricks": "dapi" + _hex(15, 32),
    "DigitalOcean": "dop" + "_v1_" + _hex(16, 64),
    "NVIDIA": "nvapi" + "-" + _filler(17, 64),
    "Docker Hub": "dckr" + "_pat_" + _filler(18, 27),
    "Groq": "gsk" + "_" + _filler(19, 52),
    "Replicate": "r8" + "_" + _filler(20, 37),
    "Vault": "hvs" + "." + _filler(21, 90),
    "Grafana": "glsa" + "_" + _filler(22, 32) + "_" + _hex(22, 8),
    "Weights & Biases": "wandb" + "_v1_" + _filler(23, 60),
    "JWT": "eyJ" + _filler(24, 30) + ".eyJ" + _filler(24, 40) + "." + _filler(24, 43),
    "Telegram": "1234567890:AA" + _filler(25, 33),
    "Twilio": "SK" + _hex(26, 32),
}
"""Known by their shape alone."""

_N = [f"{number}horsebattery" for number in range(30, 60)]

NAMED: Mapping[str, str] = {
    _N[0]: f"export DB_PASSWORD={_N[0]}",
    _N[1]: f"api_key={_N[1]}",
    _N[2]: f"apiKey: {_N[2]}",
    _N[3]: f"python train.py --password {_N[3]}",
    _N[4]: f"launch --hf-token={_N[4]}",
    _N[5]: f"Authorization: Bearer {_N[5]}",
    _N[6]: f"GET https://store.example/o?token={_N[6]}&n=3",
    _N[7]: f'{{"password": "{_N[7]}"}}',
    _N[8]: f"cloning https://git:{_N[8]}@git.example/r.git",
    _N[9]: f"os.environ['AWS_SECRET_ACCESS_KEY'] = '{_N[9]}'",
    _N[10]: f"machine api.wandb.ai login user password {_N[10]}",
    _N[11]: f"AccountKey={_N[11]};EndpointSuffix=core",
    _N[12]: f"redis://:{_N[12]}@cache.example:6379/0",
    _N[13]: f"postgresql://job:{_N[13]}@db.example/train",
    _N[14]: f"Cookie: session={_N[14]}",
    _N[15]: f"x-api-key: {_N[15]}",
    _N[16]: f"client_secret => '{_N[16]}'",
    _N[17]: f"{{'secret_key': '{_N[17]}', 'n': 3}}",
    _N[18]: f"- name: WANDB_API_KEY, value: {_N[18]}",
    _N[19]: f"PRIVATE_TOKEN := {_N[19]}",
    _N[20]: f"Proxy-Authorization: Basic {_N[20]}",
    _N[21]: f"curl -H 'Authorization: token {_N[21]}' https://api.example",
    _N[22]: f"passphrase: '{_N[22]}'",
    _N[23]: f"s3://bucket/o?X-Amz-Signature={_N[23]}",
    _N[24]: f"https://blob.example/c?sv=2024&sig={_N[24]}",
    _N[25]: f'[rank1]: connection_string="{_N[25]}"',
}
"""Known by the name before them: the value, and the line that holds it."""

KEY_LINES = (_filler(70, 64), _filler(71, 64), _filler(72, 23) + "=")
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(KEY_LINES) + "\n-----END RSA PRIVATE KEY-----"

LINES = (*NAMED.values(), *(f"using {token}" for token in TOKENS.values()))
"""A line for each secret but the private key."""

ALL = (*NAMED, *TOKENS.values(), *KEY_LINES)


def shown_in(text: str) -> list[str]:
    """The planted secrets that the text shows: a beginning is enough."""
    return [secret for secret in ALL if secret[:14] in text]
