"""Masks passwords, tokens and keys in a text: by the name before a value, or by its shape.

Names count in any case and in any form of assignment: ``HF_TOKEN=...``, ``"password": "..."``, ``--api-key ...``, ``?token=...``, and
``name: HF_TOKEN, value: ...`` of Kubernetes. Shapes are the prefixes by which services mark what they issue, so that scanners find it.
Words of language models (``max_tokens``, ``pad_token``) and keys of a rendezvous store are no secrets.

It is a part of the collector too, which runs on a node's Python 3.8 (:mod:`nccldoctor.collect.one_file`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape, unescape
from typing import Any

from nccldoctor.patterns import lazy

MASK = "***"

SHAPES: Mapping[str, str] = {
    "Age": r"AGE-SECRET-KEY-1[0-9A-Z]{50,64}",
    "Airtable": r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",
    "Anthropic": r"sk-ant-[\w-]{20,200}",
    "Artifactory": r"AKCp[A-Za-z0-9]{60,80}",
    "Atlassian": r"ATATT3[\w=-]{50,300}",
    "AWS": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    "Azure": r"[A-Za-z0-9_~.]{3}\dQ~[\w~.-]{24,40}",
    "Bitbucket": r"ATBB[A-Za-z0-9]{28,40}",
    "Cloudflare": r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,200}",
    "Databricks": r"dapi[0-9a-f]{32}(?:-\d)?",
    "DigitalOcean": r"do[opr]_v1_[0-9a-f]{16,64}",
    "Docker Hub": r"dckr_[op]at_[\w-]{20,80}",
    "Doppler": r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{20,64}",
    "Dropbox": r"sl\.[\w-]{60,300}",
    "Figma": r"figd_[\w-]{30,60}",
    "Fly.io": r"fo1_[\w-]{40,60}|fm\d[ar]?_[\w+/=,-]{40,400}",
    "GitHub": r"gh[opsur]_[A-Za-z0-9]{12,251}|github_pat_\w{10,255}",
    "GitLab": r"gl(?:pat|dt|rt|cbt|ptt|oas|ft|soat|imt|agent|ffct)-[\w.-]{16,80}",
    "Google": r"AIza[\w-]{35}|ya29\.[\w-]{20,300}|GOCSPX-[\w-]{24,40}|1//0[\w-]{30,200}",
    "Grafana": r"gl(?:c|sa)_[A-Za-z0-9+/=_]{24,300}",
    "Groq": r"gsk_[A-Za-z0-9]{40,60}",
    "Heroku": r"HRKU-[\w-]{30,80}",
    "Hugging Face": r"(?:hf|api_org)_[A-Za-z0-9]{34}",
    "JSON Web Token": r"eyJ[\w-]{8,2000}\.eyJ[\w-]{8,4000}(?:\.[\w-]{0,1000})?",
    "Linear": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,80}",
    "Mailgun": r"key-[0-9a-f]{32}(?![A-Za-z0-9])",
    "Mapbox": r"[ps]k\.eyJ[\w-]{20,300}\.[\w-]{20,60}",
    "New Relic": r"NRAK-[A-Z0-9]{20,40}",
    "Notion": r"ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{43}",
    "npm": r"npm_[A-Za-z0-9]{36}",
    "NVIDIA": r"nvapi-[\w-]{40,120}",
    "OpenAI": r"sk-(?:(?:proj|svcacct|admin|or-v1|lf)-[\w-]{20,250}|[A-Za-z0-9]{20,250})",
    "Perplexity": r"pplx-[A-Za-z0-9]{32,64}",
    "Pinecone": r"pcsk_[\w]{30,100}",
    "Postman": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "Pulumi": r"pul-[0-9a-f]{40}",
    "PyPI": r"pypi-[\w-]{40,300}",
    "Replicate": r"r8_[A-Za-z0-9]{30,60}",
    "RunPod": r"rpa_[A-Za-z0-9]{30,60}",
    "SendGrid": r"SG\.[\w-]{16,32}\.[\w-]{32,64}",
    "Sentry": r"sntry[su]_[\w+/=-]{40,300}",
    "Shopify": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "Slack": r"xox[abeoprs]-[\w-]{10,250}|xapp-\d-[\w-]{10,250}|(?<=hooks\.slack\.com/services/)[\w/]{20,100}",
    "Square": r"sq0(?:atp|csp)-[\w-]{22,60}",
    "Stripe": r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{12,250}|whsec_[A-Za-z0-9+/=]{24,100}",
    "Supabase": r"sb[ps]_[0-9A-Za-z_]{36,60}",
    "Tailscale": r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,60}",
    "Telegram": r"\d{8,10}:AA[\w-]{20,33}",
    "Terraform": r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,70}",
    "Twilio": r"SK[0-9a-f]{32}(?![A-Za-z0-9])",
    "Vault": r"hv[sbr]\.[\w-]{24,300}",
    "Weights & Biases": r"wandb_v\d_[\w-]{30,120}",
    "xAI": r"xai-[A-Za-z0-9]{60,100}",
    "1Password": r"ops_eyJ[\w-]{60,4000}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
    "models": r"lsv2_[ps][tk]_[0-9a-f]{32}_[0-9a-f]{10}|tvly-[\w-]{20,60}|jina_[A-Za-z0-9]{60}|csk-[a-z0-9]{48}",
    "clouds": r"LTAI[A-Za-z0-9]{12,24}|ABSK[A-Za-z0-9+/]{109,269}={0,2}|bedrock-api-key-[\w+/=-]{20,400}|AQVN[\w-]{35,38}",
    "clusters": r"sha256~[\w-]{43}|pnu_[A-Za-z0-9]{36}|API-[A-Z0-9]{26}|[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
    "databases": r"4b1d[A-Za-z0-9]{38}|pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",
    "monitors": r"dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}|NR(?:II|JS|RA)-[\w-]{19,40}|ico-[A-Za-z0-9]{32}",
    "packages": r"cmVmd[A-Za-z0-9]{59}|CLOJARS_[A-Za-z0-9]{60}|rubygems_[0-9a-f]{48}|rdme_[a-z0-9]{70}|GR1348941[\w-]{20}",
    "code": r"sq[upa]_[0-9a-f]{40}|sgp_(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}|sm_[aps]at_[A-Za-z0-9]{16}|tk-us-[\w-]{48}",
    "mail": r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}|[0-9a-f]{32}-us\d{1,2}(?!\w)|tfp_[\w=.-]{59}|EAA[MC][A-Za-z0-9]{100,300}",
    "shops": r"(?:duffel|shippo)_(?:test|live)_[\w=-]{40,43}|EZ[AT]K[A-Za-z0-9]{54}|FLW(?:SEC|PUB)K_TEST-[A-Za-z0-9]{12,32}",
    "media": r"EAAA[\w-]{22,60}|p8e-[A-Za-z0-9]{32}|fio-u-[\w=-]{64}",
}
"""What the services of machine learning, clouds and code hosts issue; each has a prefix that nothing else has."""

_BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Where a word begins: also behind a line end that is written as an escape, as in JSON."""

_SHAPED = lazy(_BEGIN + "(?:" + "|".join(SHAPES.values()) + ")")
_CUT_OFF = lazy(
    _BEGIN
    + r"(?:gh[opsur]_|github_pat_|gl(?:pat|dt|rt)-|sk-(?:proj|ant|svcacct|admin)-|[sr]k_live_|xox[abeoprs]-|nvapi-"
    r"|pypi-|npm_|gsk_|dckr_[op]at_|do[opr]_v1_|hv[sbr]\.|gl(?:c|sa)_|wandb_v\d_|dapi|A[KS]IA|AIza|ya29\.|eyJ|SG\.|pplx-|xai-|tskey-"
    r"|lin_api_|figd_|ntn_|shp(?:at|ca|pa|ss)_|sntry[su]_|pul-|PMAK-|pcsk_|NRAK-|r8_|rpa_|api_org_)(?=[\w.=+/-]{0,200}\d)"
    r"[\w.=+/-]{6,400}$|" + _BEGIN + r"hf_(?=(?:[A-Za-z]{0,33}\d){3})(?=[A-Za-z0-9]{0,33}[A-Z])(?=[A-Za-z0-9]{0,33}[a-z])[A-Za-z0-9]{6,34}$"
)  # fmt: skip
"""A token whose end was cut off with the text: a parser keeps so many characters of a line."""
_RANDOM = lazy(r"[A-Za-z0-9]{16,400}")
"""A word that may have been drawn at random: :func:`_is_random` tells."""
_LINE_END = lazy(r"(?<![:=] [|>])(?<![:=] [|>][+-])\n(?!\s{0,40}[\"']?value[\"']?\s{0,4}[:=])")
_LONG = lazy(r"\S{14,}")
_LAST_WORD = lazy(r"\S{10}$")
_DIGITS = str.maketrans("012346789", "555555555")
_LONG_WORD = lazy(r"[\w.:/+=-]{14}")

_PEM = lazy(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S]){0,8000}"
    r"(?:-----END [A-Z0-9 ]{0,60}-----)?"
)
_PEM_LINE = lazy(
    r"(?m)^(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*\d)(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{12,62}={1,2})$"
)
"""A line inside a key or certificate: quoted alone it shows neither its beginning nor its end."""
_PREFIXED_PEM_LINE = lazy(
    r"(?m)(?<=[\]|>:] )(?=[A-Za-z0-9+/]{0,64}[A-Z])(?=[A-Za-z0-9+/]{0,64}[a-z])(?=[A-Za-z0-9+/]{0,64}\d)"
    r"(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{22,62}={1,2})$"
)
_BASE64 = lazy(r"[A-Za-z0-9+/]{22}")

_URL = lazy(
    r"(\bhttps?://)[^/\s\"'<>]{1,300}@|(\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://)[^/@\s:\"'<>]{0,200}:[^/\s\"'<>]{1,300}@"
)
_URL_AS_VALUE = lazy(r"(?i)(%3a%2f%2f)(?:(?!%2f|%40)[^\s\"'<>]){1,300}%40")
"""``https://user:password@host`` inside the query of another URL."""
_WEBHOOK = lazy(r"((?:webhooks/\d{15,22}|webhook\.office\.com/webhookb2)/)[\w@/.-]{20,300}")
_LOGIN = lazy(
    r"(?<![\w/.-])([\w.-]{1,60}:)(?=[^\s@]{0,100}\d)(?=[^\s@]{0,100}[A-Za-z])[^\s@:/\"'<>,()]{8,100}(?=@[\w-]{1,80}\.[A-Za-z0-9])"
)
"""``user:password@host.domain`` without a protocol, as proxies are written."""

_AUTHORIZATION = lazy(
    rf"(?i){_BEGIN}"
    r"((?:proxy-)?authorization[\\\"']{0,2}\s{0,4}[:=]\s{0,4}[\\\"']{0,2}(?:(?:bearer|basic|token|digest|negotiate)\s{1,4})?"
    r"|(?<![\w-])bearer\s{1,4}(?=[\w.~+/=-]{0,200}[\d._=])|(?<![\w-])basic\s{1,4}(?=[\w+/]{8,400}=)|(?:set-)?cookie[\\\"']{0,2}\s{0,4}:\s{0,4}[\\\"']{0,2})(?!(?:bearer|basic|token|digest|negotiate)\b|\*)"
    r"(?:(?:apikey|api-key|key|aws4-hmac-sha256|hmac|signature|sharedkey|sharedaccesssignature)\s{1,4})?"
    r"((?:[^\s\"'\\,]{6,4000}|[\w.-]{1,80}=[^\s\"'\\,;]{0,4000};)(?:;?\s{0,2}[\w.-]{1,80}=[^\s\"'\\,;]{1,4000}){0,40})"
)
"""The whole value of a header, with all cookies."""

_ESCAPED = lazy(r"&(?:amp;)?(?:quot|apos|lt|gt|#x?[2-3][0-9a-fA-F]);")
"""A sign in a text that was written for HTML."""
_WORD = (
    r"(?i:pass(?:word|wd|phrase|code)|secret|credential|token|connection[-_]?string|webhook[-_]?url|jwt"
    r"|(?:db|ssh|sudo|become|smtp|ftp|proxy|root|admin|registry|redis|mongo|mysql|user|store|key)[-_]?pass(?![a-z])|key[-_]data"
    r"|(?:api|access|account|auth|private|encryption|signing|ssh|license|licence|storage|master|service|subscription|session|client"
    r"|wandb|comet|neptune|hf|openai|anthropic|azure|aws|github|gitlab)[-_]?key)"
)
# a bare value ends where a further name begins: lines that lost their ends read ``x-api-key: client_secret => '...'``
_VALUE = (
    r"(?:(?!\"\"(?=[^\s\"',;)}]))\"(?P<plain>(?:[^\"\\\n]|\\[^\n]){0,4000})\"|'(?P<apart>(?:[^'\\\n]|\\[^\n]){0,4000})'"
    r"|(?:\"\"(?=[^\s\"',;)}])|\\{0,3}\")(?P<double>(?:[^\"\\\n]|\\{3}\"|\\[^\"\\\n]){0,4000})\\{0,3}\""
    r"|\\{0,3}'(?P<single>(?:[^'\\\n]|\\{3}'|\\[^'\\\n]){0,4000})\\{0,3}'"
    rf"|(?P<bare>(?:(?!{_WORD}[A-Za-z_-]{{0,40}}(?:[:=]\s|\s{{0,4}}(?:=>|:=)))[^\s\"',;&)}}\]<>\\]){{1,4000}}))"
)
_VALUES = ("plain", "apart", "double", "single", "bare")
_BLANKS = r"(?:[ \t]{0,40}|\s{0,4})"
_WRITTEN = (
    r"(?:(?:Optional\[)?str\]?(?:\s{0,4}\|\s{0,4}None)?\s{0,4}=\s{0,4})?"
    r"(?:[\w.]{1,40}\((?=[\"'])|Secret(?:Str|Bytes)?\(|[|>][+-]?[ \t]{0,8}\r?\n\s{1,40})?"
    r"(?:[bBfFrRuU]{1,2}(?=[\\\"']))?(?:%2[27])?"
)
"""What may stand between a sign and the value: a type of Python, a prefix of its texts, a block of YAML."""
_NAMED = lazy(
    rf"(?P<word>{_WORD}"
    r"|(?<![A-Za-z])(?i:pass|pw)(?=[\"']?=)|(?<![A-Za-z0-9] )(?<![A-Za-z])(?i:pass|pw)(?=[\"']?:\s)"
    r"|KEY|(?<=[?&;])(?i:sig|signature|pwd)|(?<![A-Za-z])Signature(?==)|(?<=_)(?:PASS|PW)(?![A-Za-z])|(?<![A-Za-z])(?i:otp|psk)(?=\s{0,4}[:=])"
    r"|(?<=[-_])(?i:signature|auth|pat|pwd)(?![A-Za-z])|(?<=[\"'])auth(?=\\{0,3}[\"']{1,2}\s{0,4}:))"
    r"(?P<tail>[\w.-]{0,40})"
    r"(?P<sign>(?:[\\\"'\]]|%2[27]){0,8}(?:[,\s]\s{0,40}[\"']?value[\"']?\s{0,4}[:=]\s{0,4}|\s{0,4}(?:=>|:=|==?|:|%3[aAdD])"
    + _BLANKS
    + _WRITTEN
    + r"|,\s{0,4}(?=[\\\"'])|>(?=[^<\n]{1,400}</)|[ \t]{0,40}[|\u2502\u2503][ \t]{0,4}(?=[^\s|\u2502\u2503]{0,100}\d)))"
    + _VALUE
)
_OPTION = lazy(
    rf"(?P<head>(?<![\w-])--?[\w-]{{0,40}}?|\b(?:setenv|set -g?x)\s{{1,4}}[\w-]{{0,40}}?|\blogin\s{{1,4}}\S{{1,60}}\s{{1,4}}(?=password))"
    rf"(?P<word>{_WORD})(?P<tail>[\w-]{{0,40}})"
    r"(?P<sign>[ \t]{1,4})(?!-)" + _VALUE
)
"""``--hf-token x`` of a command line, and ``login x password y`` of a ``.netrc``."""
_SPOKEN = lazy(
    r"(?i)(?<![\w.-])(pass(?:word|wd|phrase)(?:\s{1,40}|[`!$](?=\S{0,40}\d))(?:(?:is|was|of)\s{1,4})?)"
    r"(?:(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\n]){4,400})(?P=quote)|(?=[^\s\"',;)}\]<>]{0,400}\d)[^\s\"'`,;)}\]<>=:/\\]{6,400})"
)
"""``Invalid password 'x'`` of a message, ``password  x`` of a table or a ``.netrc``."""
_COMMANDS = tuple(
    lazy(rf"({command})([\"']?)[^\s\"']{{4,400}}")
    for command in (
        r"\bsshpass\s{1,4}-p\s{0,4}",
        r"\b(?:docker|podman|nerdctl|helm|oras|skopeo|crane|apptainer|singularity|az)\b[^\n|;]{0,60}?\blogin\b[^\n|;]{0,120}?\s-p[ =]{0,4}",
        r"\bmysql\w{0,10}\b[^\n|;]{0,200}?\s-p(?=\S)",
        r"\bmongo\w{0,10}\b[^\n|;]{0,200}?\s-p[ =]{0,4}(?!-)",
        r"\bredis-cli\b[^\n|;]{0,200}?\s(?:-a|--pass)[ =]{1,4}",
        r"\bldap(?:search|modify|add|whoami|passwd|delete)\b[^\n|;]{0,200}?\s-w\s{0,4}",
        r"\b(?:smb\w{0,10}|rpcclient)\b[^\n|;]{0,200}?\s(?:-U|--user)[ =]{0,4}[\"']?[\w.@/\\-]{1,60}%",
        r"\bauth\s{0,4}=\s{0,4}\(\s{0,4}[\"'][^\"'\n]{0,80}[\"']\s{0,4},\s{0,4}",
        r"\b\w{0,20}(?:Basic|Digest|Proxy)Auth\(\s{0,4}(?:\w{1,20}\s{0,4}=\s{0,4})?[\"'][^\"'\n]{0,80}[\"']\s{0,4},\s{0,4}",
        r"\blogin\([^)\n]{0,60}?\bkey\s{0,4}=\s{0,4}",
        r"\bconfig(?:ure)?\s{1,4}set\s{1,4}\S{0,60}?(?:secret|token|key|passw)[\w.-]{0,20}\s{1,4}",
        r"\bmc\s{1,4}(?:-\S{1,20}\s{1,4})?(?:alias\s{1,4}set|config\s{1,4}host\s{1,4}add)(?:\s{1,4}\S{1,300}){3}\s{1,4}",
        r"(?<=\s)-{0,2}pass(?:in|out|word)?\s{1,4}[\"']?pass:",
        r"\becho\s{1,4}(?=[\"']?[^\s\"'|]{4,200}[\"']?\s{0,4}\|\s{0,4}(?:sudo\b|kinit\b|chpasswd\b|\w{1,20}\s{1,4}login\b))",
        r"\bsudo\b[^\n|;]{0,60}<<<\s{0,4}",
        r"--from-literal[= ][\w.-]{1,80}=",
        r"\bsecret\s{1,4}set\b[^\n|;]{0,100}?\s(?:-b|--body)[ =]{1,4}",
        r"\brclone\s{1,4}obscure\s{1,4}",
        r"\b(?:wandb|comet|vault)\s{1,4}login\s{1,4}(?:--\w{1,20}\s{1,4})?(?!-)(?=\S{0,200}\d)",
        r"\b(?:curl|wget)\b[^\n|;]{0,400}?\s(?:-u|--(?:proxy-)?user)[ =]{1,4}[\"']?[\w.@-]{0,60}:",
    )
)
"""Options of commands that hold a password without its name."""
_COOKIES = lazy(r"(?i)(?<![a-z])(cookies?[\"']?\s{0,4}[:=]\s{0,4}\{)[^}\n]{4,4000}")
_NAME_BEFORE = lazy(r"[\w.-]{0,60}$")

_NAME_ALONE = lazy(
    r"(?i)(?:^-*|[_-])key$|passw|(?<!old)(?<!^)pwd$|cookie|(?<![a-z])o?auth(?:entication|orization)?$|signature$|bearer$|jwt$"
)
"""Further names of variables and options that hold a secret; a sentence may hold these words without one."""

_OF_LANGUAGE = lazy(
    r"(?i)(?:^|.*[_.-])(?:max|min|num|n|pad|eos|bos|unk|mask|sep|cls|special|image|audio|video|next|stop|start|end|new|additional|prompt|seen"
    r"|total|avg|drop|first|last|per|begin|sot|eot|decoder|forced|bad|suppress)_?tokens?(?:$|_|-).*"
    r"|.*tokens(?:$|[_.-]).*|.*token(?:i[sz]|_?ids?$|_?count|_?type|_?len|_?dim|_?ind|_?idx|_?emb|_?num|_?dispatch|_?drop|_?shuffle|_?per|_?level).*"
)
_HINTS = (
    "pass", "secret", "credential", "token", "key", "auth", "cookie", "bearer", "sig", "pwd", "_pat", "connection",
    "webhook", "jwt", "basic", "psk", "otp", "pw", "login", "curl", "wget", "mysql", "alias", "sudo",
    "smb", "redis-cli", "mongo", "ldap", "literal", "obscure"
)  # fmt: skip
"""A text without any of these holds no name of a secret."""
_PLAIN = frozenset(
    ("none", "null", "nil", "true", "false", "yes", "no", "not", "set", "unset", "missing", "required",
     "invalid", "expired", "0", "1")
)  # fmt: skip
"""Values that say that there is no secret, or what is wrong with it."""
_SOURCE_FILE = lazy(r"\.(?:pyx?|cc?|cpp|cuh?|h|hpp|go|rs|java)$")
"""``credentials.py:557`` of a stack is a place in a file."""
_MEASURE = lazy(r"[\d.,:/%x-]{1,40}[A-Za-z/]{0,4}")
"""``pass: 12.5ms``, ``pass=3/10``."""
_SHORTEST_TOKEN = 6
_FEWEST_DIGITS = 3
_SHARE_OF_CHANGES = 0.45
"""Of neighbours in a word drawn from 62 characters six of ten are of different kinds."""
_SHARE_OF_DIFFERENT = 0.6
_SHARE_OF_SYLLABLES = 0.34
_SYLLABLE = lazy("a{4,}|A{4,}")


def masked(text: str) -> str:
    """``text`` with the values of secrets as :data:`MASK`; everything else stays as it is."""
    if "&" in text and _ESCAPED.search(text):
        plain = unescape(unescape(text))
        shown = _masked(plain)
        return text if shown == plain else escape(shown)
    return _masked(text)


def _masked(text: str) -> str:
    if "PRIVATE KEY" in text:
        text = _PEM.sub(f"-----PRIVATE KEY {MASK}-----", text)
    if _LONG_WORD.search(text):
        text = _LONG.sub(lambda word: _without_shapes(word.group()), _PEM_LINE.sub(MASK, text))
        text = _CUT_OFF.sub(MASK, text) if _LAST_WORD.search(text) else text
        if _BASE64.search(text):
            text = _PREFIXED_PEM_LINE.sub(MASK, text)
    if "://" in text:
        text = _URL.sub(lambda url: f"{url[1] or url[2]}{MASK}@", text)
    if "webhook" in text:
        text = _WEBHOOK.sub(rf"\1{MASK}", text)
    if "%40" in text:
        text = _URL_AS_VALUE.sub(rf"\1{MASK}%40", text)
    if "@" in text:
        text = _LOGIN.sub(rf"\1{MASK}", text)
    # these patterns ask only where digits stand; escapes of URLs are other characters
    return text if "%" not in text and not _has_named(text.translate(_DIGITS)) else _without_named(text)


@lru_cache(maxsize=4096)
def _without_shapes(word: str) -> str:
    """A word without what services issue or lots draw. Most words of a log come again and again."""
    return _RANDOM.sub(lambda found: MASK if _is_random(found.group()) else found.group(), _SHAPED.sub(MASK, word))


@lru_cache(maxsize=4096)
def _has_named(form: str) -> bool:
    """True for a form, with 5 for each digit, that holds a secret with a name. Lines of a log have few forms."""
    return _without_named(form) != form


def _without_named(text: str) -> str:
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text
    text = _AUTHORIZATION.sub(lambda found: found[1] + MASK, text)
    text = _SPOKEN.sub(_without_spoken, _COOKIES.sub(rf"\1{MASK}", text))
    for command in _COMMANDS:
        text = command.sub(rf"\1\2{MASK}", text)
    return _NAMED.sub(_without_value, _OPTION.sub(_without_value, text))


def masked_lines(text: str) -> str:
    """:func:`masked` for a long text such as a log, in a third of the time.

    A secret that stands on two lines is found where the second begins with ``value:``, and in a private key.
    """
    if "PRIVATE KEY" in text:
        text = _PEM.sub(f"-----PRIVATE KEY {MASK}-----", text)
    return "\n".join(map(masked, _LINE_END.split(text)))


def masked_fields(fields: Any, around: str) -> Any:
    """Fields cut from a text, with :data:`MASK` for lines that are masked there and not by themselves.

    Of ``Cookie: session=...`` a field may hold what stands behind the name. Secrets with a name in the field itself stay as they are.
    """
    whole = masked(around)
    return fields if whole == around else _without_hidden(fields, around, whole)


def _without_hidden(fields: Any, around: str, whole: str) -> Any:
    if isinstance(fields, str):
        rows = fields.split("\n")
        return "\n".join(MASK if row.strip() and row in around and masked(row) not in whole else row for row in rows)
    if isinstance(fields, dict):
        return {name: _without_hidden(one, around, whole) for name, one in fields.items()}
    if type(fields) in (list, tuple):
        return type(fields)(_without_hidden(one, around, whole) for one in fields)
    return fields


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """True for the name of a variable, option or field that holds a secret: ``HF_TOKEN``, ``db-password``."""
    return _NAME_ALONE.search(name) is not None or masked(f"{name}=abcdefgh") != f"{name}=abcdefgh"


def _is_random(word: str) -> bool:
    """True for ``q7Zx0Vb2LkW9mT4s``: small letters, capitals and digits that change as often as drawn lots, and hardly repeat.

    Hashes and UUIDs have letters of one case, names such as ``ProcessGroupNCCL`` change once in a syllable, and
    ``MI16x16x16x1x1x1`` has few different characters. A value that lost its name, or a token that lost its prefix, is such a word.
    """
    if word.isdigit() or word.isalpha() or word.islower() or word.isupper():
        return False
    kinds = "".join("d" if char.isdigit() else "A" if char.isupper() else "a" for char in word)
    changes = sum(one != other for one, other in zip(kinds, kinds[1:]))
    return (
        kinds.count("d") >= _FEWEST_DIGITS
        and changes >= _SHARE_OF_CHANGES * (len(word) - 1)
        and len(set(word)) >= _SHARE_OF_DIFFERENT * min(len(word), 20)
        and sum(map(len, _SYLLABLE.findall(kinds))) <= _SHARE_OF_SYLLABLES * len(word)
    )


def _without_spoken(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    return f"{found[1]}{quote}{MASK}{quote}"


def _without_value(found: re.Match[str]) -> str:
    at = found.start("word")
    before = _NAME_BEFORE.search(found.string[max(0, at - 60) : at])
    name = f"{before.group() if before is not None else ''}{found['word']}{found['tail']}".lstrip("-.")
    group = next(group for group in _VALUES if found[group] is not None)
    if not _is_telling(name, found[group]):
        return found.group()
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    return found.group()[:start] + MASK + found.group()[end:]


def _is_telling(name: str, value: str) -> bool:
    """True where a name marks a secret, and the value is more than a word like ``None``."""
    if not value or value.lower() in _PLAIN or value.startswith(MASK):
        return False
    if _SOURCE_FILE.search(name) and value[0].isdigit():
        return False
    lower = name.lower()
    if value.isalpha() and "." in name and not _NAMED.search(name.rpartition(".")[2] + "=a"):
        return False  # a function of TokenBudget
    if "token" in lower:
        is_count = value.isdigit() or (lower == "token" and len(value) < _SHORTEST_TOKEN)
        return not is_count and not _OF_LANGUAGE.fullmatch(name)
    if lower.rpartition("_")[2] in ("pass", "pw"):  # a round of a compiler or a model has such a name, too
        return len(value) >= 6 and not value.isalpha() and not _MEASURE.fullmatch(value)
    is_key_of_store_or_fabric = lower in ("key", "keys") or lower.endswith("pkey")
    return not is_key_of_store_or_fabric and not (lower.endswith("pwd") and value.startswith("/"))
