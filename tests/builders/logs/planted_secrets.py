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
    "Dynatrace": "dt0c01" + "." + _filler(81, 24) + "." + _filler(82, 64),
    "Alibaba": "LTAI" + _filler(83, 20),
    "OpenShift": "sha256" + "~" + _filler(84, 43),
    "Prefect": "pnu" + "_" + _filler(85, 36),
    "LangSmith": "lsv2" + "_pt_" + _hex(86, 32) + "_" + _hex(87, 10),
    "RubyGems": "rubygems" + "_" + _hex(88, 48),
    "SonarQube": "squ" + "_" + _hex(89, 40),
    "PlanetScale": "pscale" + "_tkn_" + _filler(90, 40),
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

_N = [f"{number}horsebattery" for number in range(30, 110)]

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
    _N[26]: f"callback?next=%3Ftoken%3D{_N[26]}%26a%3D1",
    _N[27]: f"proxy is https%3A%2F%2Fjob%3A{_N[27]}%40git.example",
    _N[28]: f"git clone job:{_N[28]}@git.example:r.git",
    _N[29]: f"mysql -u job -p{_N[29]} runs",
    _N[30]: f"curl -u job:{_N[30]} https://api.example",
    _N[31]: f"docker login -u job -p {_N[31]} registry.example",
    _N[32]: f"sshpass -p '{_N[32]}' ssh node3",
    _N[33]: f"wandb login --relogin {_N[33]}",
    _N[34]: f"setenv DB_PASSWORD {_N[34]}",
    _N[35]: f'export DB_PASS="{_N[35]} x"',
    _N[36]: f"ansible_ssh_pass: {_N[36]}",
    _N[37]: f"DB_PW={_N[37]}",
    _N[38]: f"HF_TOKEN:               {_N[38]}  Optional: false",
    _N[39]: f"| HF_TOKEN | {_N[39]} |",
    _N[40]: f"Invalid password '{_N[40]}' for user job",
    _N[41]: f"Authorization: ApiKey {_N[41]}",
    _N[42]: f"Authorization: AWS4-HMAC-SHA256 Credential=abcdefgh, SignedHeaders=host, Signature={_N[42]}",
    _N[43]: f"Cookie: a=1; session={_N[43]}; b=2",
    _N[44]: f"Uid=job;Pwd={_N[44]};",
    _N[45]: f"SLURM_JWT={_N[45]}",
    _N[46]: f"Namespace(lr=0.1, wandb_key='{_N[46]}')",
    _N[47]: f"Ocp-Apim-Subscription-Key: {_N[47]}",
    _N[48]: f"db_password=SecretStr('{_N[48]}')",
    _N[49]: f"password: str = '{_N[49]}'",
    _N[50]: f"password=b'{_N[50]}'",
    _N[51]: f"<password>{_N[51]}</password>",
    _N[52]: f'{{"auths": {{"reg": {{"auth": "{_N[52]}"}}}}}}',
    _N[53]: f"https://discord.com/api/webhooks/123456789012345678/{_N[53]}-staple-magnet",
    _N[54]: f"train.py --password 'a {_N[54]}' --lr 0.1",
    _N[55]: f'"Env": ["PATH=/bin", "MYSQL_PWD={_N[55]}", "RANK=3"]',
    _N[56]: f"mount.cifs //h/s /m -o user=job,pass={_N[56]}",
    _N[57]: f"pw={_N[57]}",
    _N[58]: f"SSHPASS='{_N[58]}' scp a b",
    _N[59]: f"requests.get(url, auth=('job', '{_N[59]}'))",
    _N[60]: f"HTTPBasicAuth('job', '{_N[60]}')",
    _N[61]: f"aws configure set aws_secret_access_key {_N[61]}",
    _N[62]: f"ngc config set apikey {_N[62]}",
    _N[63]: f"mc alias set store https://s3.example job {_N[63]}",
    _N[64]: f"openssl rsa -in k -passin pass:{_N[64]}",
    _N[65]: f"echo {_N[65]} | sudo -S dmesg",
    _N[66]: f"sudo -S dmesg <<< {_N[66]}",
    _N[67]: f"smbclient //h/share -U job%{_N[67]}",
    _N[68]: f"redis-cli -h h -a {_N[68]} ping",
    _N[69]: f"mongosh -u job -p {_N[69]} runs",
    _N[70]: f"ldapsearch -D cn=job -w {_N[70]}",
    _N[71]: f"keytool -list -storepass {_N[71]}",
    _N[72]: f"kubectl create secret generic s --from-literal=a={_N[72]}",
    _N[73]: f"gh secret set DEPLOY --body {_N[73]}",
    _N[74]: f"wandb.login(key='{_N[74]}')",
    _N[75]: f"rclone obscure {_N[75]}",
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
