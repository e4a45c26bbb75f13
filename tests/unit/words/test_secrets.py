"""No password, token or key is shown, in whatever form a log holds it, and nothing else is masked."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.words.sanitize import sanitize, text
from nccldoctor.words.secrets import MASK, SHAPES, is_secret, masked, masked_lines

VALUE = "horse2battery"

FORMS = [
    "export HF_TOKEN={}",
    "HF_TOKEN={} python train.py",
    "set -x; hf_token='{}'",
    "api_key={}",
    "api-key: {}",
    "apiKey: {},",
    'config = {{"password": "{}", "lr": 0.1}}',
    "{{'WANDB_API_KEY': '{}', 'RANK': '3'}}",
    '{{\\"secret\\": \\"{}\\"}}',
    "--password {}",
    "--hf-token={}",
    "train.py --wandb_api_key {} --steps 10",
    "-Dfs.s3a.secret.key={}",
    "GET https://storage.example/b/o?token={}&alt=media",
    "https://a.blob.example/c?sv=2022&sig={}&se=2026",
    "https://bucket.example/k?X-Amz-Signature={}&X-Amz-Date=1",
    "https://bucket.example/k?X-Amz-Credential={}%2F20260101",
    "git clone https://user:{}@git.example/repo.git",
    "git clone https://{}@git.example/repo.git",
    "redis://:{}@10.0.0.3:6379/0",
    "postgresql://trainer:{}@db.example/runs",
    "Authorization: Bearer {}",
    "authorization: Basic {}",
    '"Authorization": "token {}"',
    "curl -H 'Authorization: Bearer {}' https://x.example",
    "Set-Cookie: {}; Path=/",
    "machine api.wandb.ai login user password {}",
    "AccountName=runs;AccountKey={};EndpointSuffix=core",
    "Server=db;User=sa;pwd={};",
    "os.environ['AWS_SECRET_ACCESS_KEY'] = '{}'",
    "('MLFLOW_TRACKING_PASSWORD', '{}')",
    '{{"name": "HF_TOKEN", "value": "{}"}}',
    "- name: HF_TOKEN\n  value: {}",
    "credentials => {}",
    "client_secret =&gt; &#x27;{}&#x27;",
    "_authToken={}",
    "MY_SIGNING_KEY={}",
    "passphrase: {}",
    "SLACK_WEBHOOK_URL={}",
    "azure connection-string={}",
    '"{{\\\\\\"api_key\\\\\\": \\\\\\"{}\\\\\\"}}"',
    '{{"password": "a\\"{}"}}',
    "callback?next=%3Ftoken%3D{}%26a%3D1",
    "https%3A%2F%2Fjob%3A{}%40git.example",
    "postgresql://job:p@{}@db.example/runs",
    "git clone job:{}@git.example:r.git",
    "train.py --password 'a {}' --lr 0.1",
    "mysql -u job -p{} runs",
    "curl -u job:{} https://api.example",
    "docker login -u job -p {} registry.example",
    "sshpass -p '{}' ssh node3",
    "wandb login --relogin {}",
    "setenv DB_PASSWORD {}",
    "set -x DB_PASSWORD {}",
    'export DB_PASS="{} x"',
    "ansible_ssh_pass: {}",
    "DB_PW={}",
    "      HF_TOKEN:               {}  Optional: false",
    "| HF_TOKEN | {} |",
    "\u2502 password \u2502 {} \u2502",
    "password   {}",
    "the password is {}",
    "Invalid password '{}' for user job",
    "Authorization: ApiKey {}",
    "Authorization: AWS4-HMAC-SHA256 Credential=abcdefgh, SignedHeaders=host, Signature={}",
    "Cookie: a=1; session={}; b=2",
    "cookies={{'sid': '{}'}}",
    "Uid=job;Pwd={};",
    "MYSQL_PWD={}",
    "SLURM_JWT={}",
    "psk={}",
    "Namespace(lr=0.1, wandb_key='{}')",
    "Ocp-Apim-Subscription-Key: {}",
    "db_password=SecretStr('{}')",
    "password: str = '{}'",
    "password=b'{}'",
    "<password>{}</password>",
    '{{"auths": {{"reg": {{"auth": "{}"}}}}}}',
    "hf_token: |\n  {}",
    "&lt;password&gt;{}&lt;/password&gt;",
    "Invalid password &#x27;{}&#x27; for user job",
    "password=b&#x27;{}&#x27;",
    "{{&quot;auth&quot;: &quot;{}&quot;}}",
    "{{&amp;quot;auth&amp;quot;: &amp;quot;{}&amp;quot;}}",
    "HTTPBasicAuth(&#x27;job&#x27;, &#x27;{}&#x27;)",
    "sudo -S dmesg &lt;&lt;&lt; {}",
    '{{""auths"": {{""reg"": {{""auth"": ""{}""}}}}}}',
    "api_key=apiKey: {}",
    "db_password=SmcretStr('{}')",
    "api_key=hunter2apiKey: {}",
    "https://discord.com/api/webhooks/123456789012345678/{}-staple-magnet",
    "mount.cifs //h/s /m -o user=job,pass={}",
    "pw: {}",
    "SSHPASS='{}' scp a b",
    "requests.get(url, auth=('job', '{}'))",
    "HTTPBasicAuth('job', '{}')",
    "aws configure set aws_secret_access_key {}",
    "ngc config set apikey {}",
    "mc alias set store https://s3.example job {}",
    "openssl rsa -in k -passin pass:{}",
    "echo {} | sudo -S dmesg",
    "echo '{}' | docker login -u job --password-stdin",
    "sudo -S dmesg <<< {}",
    "smbclient //h/share -U job%{}",
    "redis-cli -h h -a {} ping",
    "mongosh -u job -p {} runs",
    "ldapsearch -D cn=job -w {}",
    "keytool -list -storepass {}",
    "kubectl create secret generic s --from-literal=a={}",
    "gh secret set DEPLOY --body {}",
    "wandb.login(key='{}')",
    "rclone obscure {}",
    "vault login {}",
]


@pytest.mark.parametrize("form", FORMS)
def test_the_value_behind_the_name_of_a_secret_is_masked(form: str) -> None:
    shown = masked(form.format(VALUE))
    assert VALUE not in shown
    assert MASK in shown


@pytest.mark.parametrize("form", FORMS)
def test_what_stands_around_a_secret_stays(form: str) -> None:
    shown = masked(f"rank 5: {form.format(VALUE)}\nNCCL error")
    assert shown.startswith("rank 5: ")
    assert shown.endswith("\nNCCL error")


@pytest.mark.parametrize("form", FORMS)
def test_a_long_text_is_masked_like_each_part_of_it(form: str) -> None:
    text = f"step 1\n{form.format(VALUE)}\nstep 2\n" * 3
    assert masked_lines(text) == masked(text)


@pytest.mark.parametrize(
    "torn",
    [
        "Signature={}",
        "login user password`{}",
        "os.environ['Awebhooks/123456789012345678/{}-staple-magnet",
        "V1=github_pat_{}V0=",
    ],
)
def test_the_value_of_a_torn_line_is_masked(torn: str) -> None:
    assert "72horsebattery" not in masked(torn.format("72horsebattery"))


TOKENS = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "11ABCDEFG0" * 5,
    "glpat-" + "x9Y8z7W6v5U4t3S2r1Q0",
    "hf_" + "abCDefGHijK" * 3 + "m",
    "sk-proj-" + "T3BlbkFJ" * 6,
    "sk-ant-" + "api03-" + "aB3d" * 10,
    "xoxb-" + "123456789012-" * 2 + "abcdEFGH",
    "https://hooks.slack.com/services/T000/B000/" + "x" * 24,
    "AIza" + "SyD4x" * 7,
    "ya29." + "a0Af_-" * 8,
    "sk_live_" + "4eC39HqL" * 3,
    "npm_" + "a1B2" * 9,
    "pypi-AgEIcHlwaS5vcmc" + "Cx9" * 12,
    "dckr_pat_" + "aB-_" * 7,
    "dop_v1_" + "0123abcd" * 8,
    "dapi" + "0123abcd" * 4,
    "SG." + "a1B2" * 5 + "ab." + "c3D4" * 10 + "efg",
    "SK" + "0123abcd" * 4,
    "1234567890:AA" + "h" * 33,
    "hvs." + "CAES" * 8,
    "glsa_" + "aB3d" * 8 + "_0123abcd",
    "r8_" + "aB3d" * 9,
    "gsk_" + "aB3d" * 13,
    "nvapi-" + "aB3_" * 16,
    "pcsk_" + "aB3d" * 10,
    "lin_api_" + "aB3d" * 10,
    "ntn_" + "aB3d" * 12,
    "PMAK-" + "0123abcd" * 3 + "-" + "0123abcd" * 4 + "01",
    "tskey-auth-" + "kAbc123CNTRL-" + "aB3d" * 8,
    "pplx-" + "aB3d" * 12,
    "xai-" + "aB3d" * 20,
    "NRAK-" + "AB3D" * 7,
    "shpat_" + "0123abcd" * 4,
    "wandb_v1_" + "aB3d" * 12,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "https://user:" + "s3cretpassw0rd" + "@proxy.example:3128",
]


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:16])
@pytest.mark.parametrize("around", ["{}", "rank 3: got {} here", "url={};", '"{}"', "fetch({})"])
def test_a_token_is_known_by_its_shape(token: str, around: str) -> None:
    shown = masked(around.format(token))
    secret = max(re.split(r"[\s:/@]", token), key=len)
    assert secret not in shown
    assert MASK in shown


@pytest.mark.parametrize("service", SHAPES)
@settings(derandomize=True, max_examples=10, database=None, deadline=None)
@given(data=st.data())
def test_every_shape_fits_what_its_service_issues(service: str, data: st.DataObject) -> None:
    address = "https://hooks.slack.com/services/"
    pattern = SHAPES[service].replace("(?<=hooks\\.slack\\.com/services/)", re.escape(address))
    token = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True))
    assert token.removeprefix(address) not in masked(f"got {token} .")


def test_many_services_are_known() -> None:
    assert len(SHAPES) >= 30


@pytest.mark.parametrize(
    "key",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nMIIEowb3BlbnNzaC1r",
        "MIIEowIBAAKCAQEA7bq3y8W9f0kT5xQ2mVn1Lr4sZcJdHgPbYuXoWiEtRaKfMhNj",
    ],
)
def test_a_private_key_is_masked_whole_or_by_its_lines(key: str) -> None:
    shown = masked(f"deploy key:\n{key}\n")
    assert "MIIEow" not in shown
    assert shown.startswith("deploy key:\n")


@pytest.mark.parametrize("word", ["q7Zx0Vb2LkW9mT4s", "pLw4RtB6vNc1Yd8Hs3J", "wJa4XUtn7EMI7K2DENb9x"])
@pytest.mark.parametrize("around", ["{}", "passw/rd {}", ": {}", "Q7V5=***{}/", "(_{}_)"])
def test_a_word_drawn_at_random_is_masked_without_a_name(word: str, around: str) -> None:
    assert word not in masked(around.format(word).replace("***", " "))


INNOCENT = [
    "Prefill batch. #new-seq: 1, #new-token: 64, #cached-token: 128, token usage: 0.0",
    "max_tokens=4096 num_tokens: 5 tokens_per_second: 18231.5 pad_token='<pad>' eos_token_id: 2",
    "tokenizer: AutoTokenizer tokenise: fix it TOKENIZERS_PARALLELISM=false",
    "KeyError: 'loss'; key=worker0; store key: default_pg/0//worker_count",
    "NCCL_IB_PKEY=3 NCCL_SOCKET_IFNAME=eth0 PWD=/home/alice",
    "password is not set; token: None; secret=null",
    "forward pass: 12 ms, FORWARD_PASS=1, backward_pass=3; otps 4; password for user job is wrong; | tokens | 1234 |",
    "docker run -u 1000:1000 -p 8080:80 image; mysql -P 3306; wandb login failed; nid 12:30@node7",
    "NCCL_IB_RKEY lkey=0x1f00 rkey: 0x2f; sort_key=lambda, dict key 'loss'; basic block of 16",
    "mail alice@example.com about https://a.example/x and http://10.0.0.1:8265/jobs, 2 pass, 1 fail",
    "monkeypatch: executable_path=/usr/bin/chromium clip-path:inset(50%)",
    'MountVolume.SetUp failed for volume "hf" : secret "hf-token" not found',
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE, NumelIn=64, Timeout(ms)=600000)",
    "tcp://10.0.0.1:29500 ssh://git@host/repo s3://bucket/key file:///a@b",
    "ncclUniqueId 0x7f2a commHash 9f3ae1c02b7d44aa opCount 1f",
    "sha256:" + "0123456789abcdef" * 4,
    "commit 9f3ae1c02b7d44aa9f3ae1c02b7d44aa9f3ae1c0 GPU-8A1f3c2e-11d2-4c3b-9a77-0242ac120002 busId 0000:1B:00.0",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_1LDSB0_APM1_WG16_16_1 sm90_xmma_gemm_bf16bf16_bf16f32_f32",
    "_ZN4c10d16ProcessGroupNCCL8WorkNCCL17checkTimeoutEv _ZNK3c104cuda4impl13CUDAGuardImpl9getDeviceEv N3c1016DistBackendErrorE",
    "pod train-7d4f9c6b8d-x2x9q of node gke-a3mega-pool-1a2b3c4d-zx9y, run 20261120T090000Z, ulid 01HQZ8K3M5N7P9R1S3T5V7W9Y1",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage4096ul) Float8E4M3FNUZ ProcessGroupNCCL.cpp:616 RTX6000Ada",
    "    refresh (botocore/credentials.py:557)",
    "hf_ds_gpt2_zero3_4nodes_run2.out /runs/hf_llama_sft/rank_0.log /data/hf_gpt2LargeSft7bCkpt/step-12000 hf_Llama2Sft",
    "Tokens.fetch_shard: fix the call; TokenBudget.next: wait; Passes.second_pass: fuse; forward pass: step_12 of 40",
    "pass: 3/10; pass=2; pass: 12.5ms; 2nd pass: done; pw: 0.25; n_pass=3 PASS: test_a[1] compile pass=fuse",
    "error: tests/test_secrets.py:181:141: line too long",
    'File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 83 in wrapper',
]


MODELS = [
    "hf_llama3_70b_sft",
    "bert-base-uncased",
    "t5-v1_1-xxl",
    "Qwen2.5-72B-Instruct",
    "Mixtral-8x7B-v0.1",
    "gpt2Medium_hf",
    "deepseek-v3-base",
    "stable-diffusion-xl-base-1.0",
    "openai/whisper-large-v3",
    "sk-learn-pipeline_v2",
    "nomic-embed-text-v1.5",
]
USES = (
    "loading {} from /data/models/{}/step-12000",
    "/runs/{}/rank_0.log",
    "{}_zero3_4nodes_bf16.out",
    "tokenizer {}: vocab 32000",
    "{}Tokenizer.fetch: fill",
    "loss/{}/tokens_per_second 18,231.5",
    "dataset {}-tokens (1.2T tokens), shard 00017-of-02048",
    "key {} is not in the checkpoint",
    "n_tokens={}",
    "class {}Token.Budget",
    "token_type={} pass 3/10",
    "export HF_HOME=/cache/{}",
    "--tokenizer-name {}",
    "{}.gate_up_proj.weight_scale_inv",
    "wandb: run {} is at https://wandb.example/runs/{}",
    "metric tokens.{}.mean=0.25",
    "AuthorsOf({})",
    "secretary_of_{}",
    "compass={}",
    "key_padding_mask of {}",
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("use", USES)
def test_names_of_models_files_and_metrics_stay(model: str, use: str) -> None:
    line = use.replace("{}", model)
    assert masked(line) == line
    assert masked_lines(f"{line}\nnext") == f"{line}\nnext"


@pytest.mark.parametrize("line", INNOCENT)
def test_what_is_no_secret_stays(line: str) -> None:
    assert masked(line) == line


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "db-password",
        "AWS_SECRET_ACCESS_KEY",
        "apiKey",
        "WANDB_API_KEY",
        "MY_KEY",
        "SLURM_JWT",
        "COOKIE",
        "HTTP_AUTH",
        "DB_PWD",
        "--key",
        "GH_PAT",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_DEBUG",
        "MAX_TOKENS",
        "RANK",
        "NCCL_IB_PKEY",
        "TOKENIZERS_PARALLELISM",
        "HOSTNAME",
        "XAUTHORITY",
        "GIT_AUTHOR_NAME",
        "PWD",
        "--eos_token",
        "--key-dim",
    ],
)
def test_names_of_settings(name: str) -> None:
    assert not is_secret(name)


@given(st.text(max_size=300))
def test_masking_twice_changes_nothing_more(value: str) -> None:
    assert masked(masked(value)) == masked(value)


def test_a_limit_that_cuts_a_secret_shows_no_part_of_it() -> None:
    line = "x" * 290 + " ghp_" + "a1B2" * 9
    assert "ghp_" not in sanitize(line, 300)
    assert sanitize("HF_TOKEN='" + "v" * 900 + "' " + "y" * 900, 40).endswith("…")
    assert "hunter" not in text("z" * 1_990 + " password=hunter2hunter2")
