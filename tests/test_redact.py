"""Secrets are found, commit messages are not refused, and no text makes the search slow.

Every token here is put together at run time: a scanner reading this file finds none.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitmem.core import redact, redact_rules, redact_values

ALPHABETS = {
    "b": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "w": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
    "h": "0123456789abcdef",
    "l": "abcdefghijklmnopqrstuvwxyz0123456789",
    "u": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "d": "123456789",
    "U": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "c": "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "n": "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789",
}


def build(shape: str, seed: int) -> str:
    """`'ghp_ b36` -> the literal and 36 random letters and digits."""
    rng = random.Random(f"{shape}{seed}")
    return "".join(
        p[1:] if p[0] == "'" else "".join(rng.choices(ALPHABETS[p[0]], k=int(p[1:])))
        for p in shape.split()
    )


UUID = "h8 '- h4 '-4 h3 '-a h3 '- h12"
SHAPES = [
    ("github-token", "'ghp _b36".replace("_", "'_ ")), ("github-token", "'ghs_ b36"), ("github-token", "'gho_ b36"),  # noqa: E501
    ("github-token", "'github_pat_ b22 '_ b59"), ("gitlab-token", "'glpat- b20"), ("gitlab-token", "'glrt- b20"),  # noqa: E501
    ("bitbucket-token", "'ATBB b32"), ("atlassian-token", "'ATATT3x b80 '=1A2B3C4D"), ("aws-access-key", "'AKIA u16"),  # noqa: E501
    ("aws-access-key", "'ASIA u16"), ("aws-bedrock-key", "'ABSK b120"), ("google-api-key", "'AIza b35"),  # noqa: E501
    ("google-oauth-secret", "'GOCSPX- w28"), ("google-oauth-token", "'ya29. w60"), ("google-refresh-token", "'1//0 w60"),  # noqa: E501
    ("azure-storage-key", "'AccountKey= b86 '=="), ("azure-shared-access-key", "'SharedAccessKey= b43 '="),  # noqa: E501
    ("azure-client-secret", "b3 '8 'Q~ b34"), ("azure-devops-token", "b76 'AZDO b4"), ("azure-storage-key", "b76 '+ASt b5 '=="),  # noqa: E501
    ("azure-sas", "'https://x.blob.core.windows.net/c?sv=1&sig= b43 '%3D"), ("slack-token", "'xoxb- d12 '- d12 '- b24"),  # noqa: E501
    ("slack-token", "'xapp-1-A0 b8 '- d12 '- h64"), ("slack-webhook", "'https://hooks.slack.com/services/T u8 '/B u8 '/ b24"),  # noqa: E501
    ("discord-webhook", "'https://discord.com/api/webhooks/ d18 '/ w68"), ("discord-token", "'M b23 '. b6 '. b38"),  # noqa: E501
    ("teams-webhook", f"'https://corp.webhook.office.com/webhookb2/ {UUID} '@ {UUID} '/IncomingWebhook/ h32 '/ {UUID}"),  # noqa: E501
    ("telegram-bot-token", "d9 ':AA w33"), ("stripe-key", "'sk_live_ b24"), ("stripe-key", "'rk_test_ b24"), ("stripe-key", "'whsec_ b32"),  # noqa: E501
    ("anthropic-key", "'sk-ant-api03- w93"), ("openai-key", "'sk- b48"), ("openai-key", "'sk-proj- w120"), ("huggingface-token", "'hf_ a34"),  # noqa: E501
    ("groq-key", "'gsk_ b52"), ("xai-key", "'xai- b80"), ("perplexity-key", "'pplx- b48"), ("replicate-token", "'r8_ b37"),  # noqa: E501
    ("nvidia-key", "'nvapi- w64"), ("langsmith-key", "'lsv2_pt_ h32 '_ h10"), ("npm-token", "'npm_ b36"),  # noqa: E501
    ("pypi-token", "'pypi-AgEIcHlwaS5vcmc w100"), ("rubygems-key", "'rubygems_ h48"), ("crates-token", "'cio b32"),  # noqa: E501
    ("nuget-key", "'oy2 l43"), ("clojars-token", "'CLOJARS_ l60"), ("docker-token", "'dckr_pat_ w27"),  # noqa: E501
    ("digitalocean-token", "'dop_v1_ h64"), ("heroku-key", f"'HRKU- {UUID}"), ("sendgrid-key", "'SG. b22 '. b43"),  # noqa: E501
    ("mailgun-key", "'key- h32"), ("mailchimp-key", "h32 '-us12"), ("brevo-key", "'xkeysib- h64 '- b16"), ("resend-key", "'re_ b8 '_ b24"),  # noqa: E501
    ("twilio-key", "'SK h32"), ("shopify-token", "'shpat_ h32"), ("square-token", "'sq0atp- w22"), ("square-token", "'EAAA b60"),  # noqa: E501
    ("facebook-token", "'EAAC b150"), ("plaid-token", f"'access-production- {UUID}"),
    ("braintree-token", "'access_token$production$ l16 '$ h32"), ("databricks-token", "'dapi h32"), ("vault-token", "'hvs. b90"),  # noqa: E501
    ("doppler-token", "'dp.pt. b43"), ("grafana-token", "'glsa_ b32 '_ h8"), ("grafana-token", "'glc_ b80"), ("newrelic-key", "'NRAK- u27"),  # noqa: E501
    ("newrelic-key", "h36 'NRAL"), ("sentry-token", "'sntrys_ b90"), ("sentry-token", "'sntryu_ h64"), ("linear-key", "'lin_api_ b40"),  # noqa: E501
    ("notion-token", "'secret_ b43"), ("notion-token", "'ntn_ b46"), ("figma-token", "'figd_ w40"), ("postman-key", "'PMAK- h24 '- h34"),  # noqa: E501
    ("terraform-token", "b14 '.atlasv1. w67"), ("pulumi-token", "'pul- h40"), ("airtable-token", "'pat b14 '. h64"),  # noqa: E501
    ("dropbox-token", "'sl. w135"), ("dynatrace-token", "'dt0c01. u24 '. u64"), ("contentful-token", "'CFPAT- w43"),  # noqa: E501
    ("jfrog-key", "'AKCp b69"), ("launchdarkly-key", f"'sdk- {UUID}"), ("netlify-token", "'nfp_ b36"),  # noqa: E501
    ("planetscale-token", "'pscale_tkn_ w43"), ("prefect-key", "'pnu_ b36"), ("snyk-token", "'snyk_uat. h8 '. w60"),  # noqa: E501
    ("sourcegraph-token", "'sgp_ h40"), ("supabase-token", "'sbp_ h40"), ("supabase-token", "'sb_secret_ w31"),  # noqa: E501
    ("tailscale-key", "'tskey-auth- b12 '- b32"), ("typeform-token", "'tfp_ w59"), ("buildkite-token", "'bkua_ h40"),  # noqa: E501
    ("circleci-token", "'CCIPAT_ b22 '_ h40"), ("fly-token", "'fm2_ b80"), ("posthog-key", "'phx_ b43"), ("onepassword-token", "'ops_eyJ b200"),  # noqa: E501
    ("cloudflare-key", "'v1.0- h24 '- h146"), ("age-key", "'AGE-SECRET-KEY-1 u58"), ("jwt", "'eyJ b30 '.eyJ b60 '. w43"),  # noqa: E501
    ("sonar-token", "'squ_ h40"), ("sonar-token", "'sqp_ h40"), ("sonar-token", "'sqco_ b59"),
    ("pinecone-key", "'pcsk_ b6 '_ b63"), ("neon-key", "'napi_ l64"), ("vercel-token", "'vcp_ b56"),
    ("vercel-token", "'vck_ b56"), ("vercel-token", "'vercel_blob_rw_ b16 '_ b24"),
    ("elevenlabs-key", "'sk_ h48"), ("e2b-key", "'e2b_ h40"), ("e2b-key", "'sk_e2b_ h40"),
    ("firecrawl-key", "'fc- h32"), ("tavily-key", "'tvly- b32"), ("tavily-key", "'tvly-dev- b32"),
    ("razorpay-key", "'rzp_live_ b14"), ("razorpay-key", "'rzp_test_ b14"),
    ("shippo-token", "'shippo_live_ h40"), ("easypost-key", "'EZAK b54"),
    ("easypost-key", "'EZTK b54"), ("flutterwave-key", "'FLWSECK_TEST- h32 '-X"),
    ("flutterwave-key", "'FLWSECK- h32 '-X"), ("frameio-token", "'fio-u- w64"),
    ("readme-key", "'rdme_ l70"), ("scalingo-token", "'tk-us- w48"), ("adafruit-key", "'aio_ b28"),
    ("alibaba-key", "'LTAI5t b18"), ("tencent-key", "'AKID b32"), ("volcengine-key", "'AKLT b44"),
    ("infracost-key", "'ico- b32"), ("render-key", "'rnd_ b28"), ("ionic-token", "'ion_ b42"),
    ("fireworks-key", "'fw_ b24"), ("mapbox-token", "'sk.eyJ b80 '. b22"),
    ("mapbox-token", "'pk.eyJ b80 '. b22"), ("jfrog-token", "'cmVmdGtu b56"),
    ("apify-token", "'apify_api_ b36"), ("bitbucket-token", "'BBDC- b44"),
    ("clickhouse-key", "'4b1d b38"), ("clickup-token", "'pk_ d8 '_ U32"),
    ("cloudflare-token", "'cfut_ b40 h8"), ("dependencytrack-key", "'odt_ b32"),
    ("deno-token", "'ddp_ b36"), ("defined-token", "'dnkey- b26 '- b52"),
    ("duffel-token", "'duffel_live_ w43"), ("endorlabs-key", "'endr+ b16"),
    ("figma-token", "'figp_ w40"), ("flexport-token", "'shltm_ w40"),
    ("fullstory-key", "'na1. b100"), ("gocardless-token", "'live_ w40"),
    ("harness-token", "'pat. b22 '. b24 '. b20"), ("hubspot-token", f"'pat-na1- {UUID}"),
    ("infisical-token", "'st. h24 '. h32 '. h32"), ("intercom-token", "'dG9rO b55 '="),
    ("intra42-secret", "'s-s4t2ud- h64"), ("jina-key", "'jina_ h32 b28"),
    ("klaviyo-key", "'pk_ h34"), ("launchdarkly-key", f"'api- {UUID}"),
    ("llamacloud-key", "'llx- b48"), ("lob-key", "'live_ h35"), ("lob-key", "'test_ h35"),
    ("logfire-token", "'pylf_v1_us_ b43"), ("mailersend-token", "'mlsn. h64"),
    ("mailtrap-token", "'mt_ b44"), ("midtrans-key", "'Mid-server- b24"),
    ("mongodb-secret", "'mdb_sa_sk_ w40"), ("netlify-token", "'nfu_ b40"),
    ("newrelic-key", "'NRJS- h19"), ("newrelic-key", "'AA h40 '-NRMA"),
    ("ngrok-key", "'cr_ b27 '_ b21"), ("nightfall-key", "'NF- b32"), ("octopus-key", "'API- U26"),
    ("onfido-token", "'api_live. b11 '. b32"), ("openshift-token", "'sha256~ w43"),
    ("openvsx-token", f"'ovsxat_ {UUID}"), ("paddle-key", "'pdl_live_apikey_ l26 '_ b22"),
    ("pagarme-key", "'ak_live_ b30"), ("persona-key", f"'persona_production_ {UUID}"),
    ("pganalyze-key", "'pgar_ b27"), ("polar-token", "'polar_oat_ b43"),
    ("posthog-key", "'phs_ b43"), ("pubnub-key", "'sec-c- b48"), ("ramp-secret", "'ramp_sec_ b48"),
    ("rootly-key", "'rootly_ h64"), ("runpod-key", "'rpa_ U40 l4"),
    ("samsara-token", "'samsara_api_ b30"), ("segment-token", "'sgp_ b64"),
    ("settlemint-token", "'sm_pat_ b16"), ("slack-token", "'xwfp- d12 '- b24"),
    ("sourcegraph-token", "'slk_ h64"), ("spectral-token", "'spu- l32"),
    ("statsig-key", "'secret- b43"), ("stackhawk-key", "'hawk. b20 '. b20"),
    ("stytch-secret", "'secret-live- w36"), ("telnyx-key", "'KEY0 U0 h0 d28 '_ b22"),
    ("together-key", "'tgp_v1_ w43"), ("trello-token", "'ATTA h72"),
    ("twitter-token", "'AAAAAAAAAAAAAAAAAAAAA b90"), ("ubidots-token", "'BBFF- b30"),
    ("valtown-token", "'vtwn_ b27"), ("voiceflow-key", "'VF.DM. h24 '. b16"),
    ("wakatime-key", f"'waka_ {UUID}"), ("wandb-key", "'wandb_v1_ b77"), ("xata-key", "'xau_ b36"),
    ("yandex-key", "'AQVN w36"), ("yandex-token", "'y0_ w58"), ("zoho-token", "'1000. h32 '. h32"),
    ("zuplo-key", "'zpka_ h32 '_ h8"), ("aiven-password", "'AVNS_ w19"),
    ("onepassword-key", "'A3- U6 '- U11 '- U5 '- U5 '- U5"), ("google-api-key", "'AQ.Ab8RN6 w40"),
    ("dynatrace-token", "'dt0s02. U8 '. u64"), ("bannerbear-key", "'bb_pr_ h30"),
    ("courier-key", "'pk_prod_ U28"), ("fleetbase-key", "'flb_live_ b20"),
    ("robinhood-key", f"'rh-api- {UUID}"), ("trufflehog-secret", "'thog-secret- h32"),
    ("close-key", "'api_ b22 '. b22"), ("scaleway-key", "'SCW U17"),
    ("salesforce-token", "'00D b15 '! b96"), ("vault-token", "'s. b24"),
    ("private-key", "'LS0tLS1CRUdJTiBSU0EgUFJJVkFURS b200"),
    ("private-key", "'LS0tLS1CRUdJTiBQUklWQVRF b200"), ("wallet-key", "'xprv n107"),
    ("wallet-key", "'5K n49"), ("wallet-key", "'L n51"), ("stellar-key", "'S u55"),
    ("nostr-key", "'nsec1 l58"), ("jwt", "'ZXlK b120"), ("asana-token", "'1/ d16 ': h32"),
    ("mailgun-key", "h32 '- h8 '- h8"), ("webex-token", f"b64 '_ b4 '_ {UUID}"),
    ("zhipu-key", "h32 '. b16"), ("azure-key", "b52 'JQQJ99 b26"), ("azure-key", "b42 'AzSe b6"),
    ("azure-key", "b44 'AzFu b6"), ("azure-key", "b42 '+ACR b6"), ("azure-key", "b76 'ACDb b6 '=="),
    ("azure-shared-access-key", "b33 '+ASb b6 '="), ("aws-signature", "'X-Amz-Signature= h64"),
    ("google-signature", "'X-Goog-Signature= h256"),
    ("coinbase-key", f"'organizations/ {UUID} '/apiKeys/ {UUID}"),
    ("maxmind-key", "b6 '_ b29 '_mmk"), ("stripe-key", "'pi_ b24 '_secret_ b25"),
    ("tableau-token", "b22 '==: b32"),
    ("teams-webhook", f"'outlook.office.com/webhook/ {UUID} '@ {UUID} '/IncomingWebhook/ h32 '/ {UUID}"),  # noqa: E501
    ("tickettailor-key", "'sk_ d4 '_ d6 '_ h32"),
    ("tines-webhook", "'https://corp.tines.com/webhook/ h32 '/ h32"),
    ("zapier-webhook", "'hooks.zapier.com/hooks/catch/ d7 '/ l7"),
    ("password-hash", "'$2b$12$ c53"), ("password-hash", "'$6$ b8 '$ c86"),
    ("password-hash", "'$5$ b8 '$ c43"), ("password-hash", "'$1$ b8 '$ c22"),
    ("password-hash", "'$apr1$ b8 '$ c22"), ("password-hash", "'$y$j9T$ c22 '$ c43"),
    ("password-hash", "'$argon2id$v=19$m=65536,t=3,p=4$ b22 '$ b43"),
    ("password-hash", "'pbkdf2_sha256$600000$ b22 '$ b43 '="), ("password-hash", "'{SSHA} b32"),
    ("password-hash", "'root:0: h32 ': h32 ':::"),
]  # fmt: skip


def rules(text: str) -> list[str]:
    return [f.rule for f in redact.find(text)]


@pytest.mark.parametrize(
    ("rule", "shape"), SHAPES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(SHAPES)]
)
def test_token_of_a_documented_shape_is_found_whole(rule: str, shape: str) -> None:
    for seed in range(25):
        token = build(shape, seed)
        text = f"We deploy with {token} since\nlast week"
        found = redact.find(text)
        assert rule in [f.rule for f in found], token
        assert redact.find(redact.mask(text, found)) == []
        # the random part is gone, not only its beginning
        assert token[-8:] not in redact.mask(text, found)


def test_every_rule_of_the_table_has_a_positive() -> None:
    heads, anchored, bare = redact_rules.tokens()
    rows = {rule for some in (*heads.values(), anchored, bare) for rule, _, _ in some}
    assert rows == {rule for rule, _ in SHAPES}


@pytest.mark.parametrize(
    ("rule", "shape"), SHAPES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(SHAPES)]
)
def test_token_cut_short_is_not_that_token(rule: str, shape: str) -> None:
    token = build(shape, 1)
    assert rule not in rules(f"see {token[: min(18, len(token) // 3)]} for more")


@pytest.mark.parametrize("rule_and_stand_in", ["ghp_" + "x" * 36, "ghp_" + "your_token_here", "AKIA" + "IOSFODNN7EXAMPLE", "sk-" + "your-api-key-goes-right-here",  # noqa: E501
    "sk-fading-circle-spinner-large", "sk-estimator-doc-link-element", "glpat-" + "this-is-a-placeholder", "npm_" + "config_registry_with_long_name_for_it",  # noqa: E501
    "hf_" + "0" * 34, "SG." + "x" * 22 + "." + "y" * 43, "re_compile_the_pattern_first_of_all", "task-force-one-two-three-four"])  # fmt: skip  # noqa: E501
def test_placeholder_in_place_of_a_token_is_let_through(rule_and_stand_in: str) -> None:
    assert redact.find(f"set it to {rule_and_stand_in} and go") == []


PW = "Tr0ub" + "4dor&3"
KEY = "q8Zr2LmX0" + "vT5nB7yHs4K"


@pytest.mark.parametrize("text", [
    f'password = "{PW}"', f"DB_PASSWORD={PW}", f"password: {PW}", f"password: str = '{PW}'", f'"password": "{PW}"', f"set('password', '{PW}')"[4:],  # noqa: E501
    f"PGPASSWORD={PW} psql", f"password=hunt{'er2'} host=db", f"--password {PW}", f"the password is '{PW}'", f"passphrase => '{PW}'",  # noqa: E501
    f"SMTP_PASS={PW}", f'os.environ["DB_PASSWORD"] = "{PW}"', f"machine x login bob password {PW}", f"pwd: {PW}", f"İİİ password = '{PW}'",  # noqa: E501
    f"api_key: {KEY}", f'API-KEY = "{KEY}"', f"apiKey:'{KEY}'", f"client_secret={KEY}", f"X-Api-Key: {KEY}", f"secret: {KEY}", f"token={KEY}",  # noqa: E501
    f"accessToken: `{KEY}`", f"--token {KEY}", f"//registry.npmjs.org/:_authToken={KEY}", f"curl -u bob:{PW} https://x.y", f'{{"auth": "{KEY}"}}',  # noqa: E501
    f"password:\t{PW}", "the staging password is hunt" + "er2 for everybody", "Learned: the passphrase is Sunf" + "lower99.", f"staging login admin / {PW}xyz works", f"creds are bob@corp.net / {PW}", f"api_key = {'9f8a7b6c5d4e3f2a' + '1b0c9d8e7f6a5b4c'}", f"postgres://admin:{PW}@db.corp.net/x", f"redis://:{PW}@cache:6379",  # noqa: E501
    f"https://{KEY}@github.com/a/b", "mysql://app:wonder" + "land@db.corp.net", f"Authorization: Bearer {KEY}", f"-H 'Authorization: token {KEY}'",  # noqa: E501
    "Authorization: Basic " + "dXNlcjpwYXNzd29yZDEyMw==", "sent Basic " + "dXNlcjpwYXNzd29yZDEyMw==", f"bearer {KEY}", f"Server=x;User Id=sa;Password={PW};",  # noqa: E501
    "aws_secret_access_key=" + "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzzzzzzzKEY",
    "-----BEGIN RSA " + "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB12\n\n" + KEY * 3 + "\n-----END RSA PRIVATE KEY-----",  # noqa: E501
    "-----BEGIN " + 'PRIVATE KEY-----\\n' + KEY * 3 + "\\n-----END PRIVATE KEY-----\\n", "-----BEGIN OPENSSH " + f"PRIVATE KEY----- {KEY}{KEY}",  # noqa: E501
    "-----BEGIN PGP " + f"PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{KEY * 3}\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----",  # noqa: E501
])  # fmt: skip
def test_secret_with_a_telling_context_is_found_and_masked(text: str) -> None:
    found = redact.find(text)
    assert found
    masked = redact.mask(text, found)
    assert PW not in masked and KEY not in masked and redact.find(masked) == []


SHA = "3f786850e387550fdab836ed7e6dc881de23001b"


@pytest.mark.parametrize("text", [
    SHA, SHA + SHA[:24], f"commit {SHA}", f"token: {SHA}", "550e8400-e29b-41d4-a716-446655440000", "token=550e8400-e29b-41d4-a716-446655440000",  # noqa: E501
    "integrity sha512-" + "b8Zr2LmX0vT5nB7yHs4K" * 4 + "abcdef==", "password=None", "token: str", "secret = os.environ['API_SECRET']", "api_key=settings.API_KEY_2",  # noqa: E501
    "password: ${DB_PASSWORD}", "password: $DB_PASS1", "token=<your-token>", "password = 'xxxxxxxx1'", "secret: {{ vault_secret_1 }}", "password=get_password1()",  # noqa: E501
    "the secret is to keep it small", "tokens: 12345678", "token = next_token2(stream)", "password: 'must have at least 8 characters'",  # noqa: E501
    'password="password"', "tokenizer: bert-base-uncased-v2", "secretName: my-app-tls-secret-v2", "postgres://user:password@localhost/db",
    "postgresql://scott:tiger@localhost/test", "https://user:${TOKEN}@host/x", "git@github.com:a/b.git", "ssh://git@github.com/a/b",  # noqa: E501
    "Basic authentication", "bearer authentication is required", "Authorization: Bearer <token>", "Authorization: Bearer $TOKEN",  # noqa: E501
    "we look for -----BEGIN RSA PRIVATE KEY----- in the text", "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",  # noqa: E501
    "-----BEGIN CERTIFICATE-----\n" + KEY * 3, "password: sha256", "fix token: Token1 vs Token2", "sort_key=lambda1x: x", "cache_key=abc123def456ghi789jkl",  # noqa: E501
    "password !Ref DbPassword1", "the password is required", "Change-Id: I3f786850e387550fdab836ed7e6dc881de23001b", "author: x", "the password is bcrypt2 hashed", "the password is argon2 now", "the password is base64 encoded", "the password is step2 of the form", "the password is required2", "password was reset1",  # noqa: E501
    "the password is 12 characters", "the password is python3 only", "login page / settings", "login admin / password1", "login with GET / api?x=2 is fine", "passes: 12",  # noqa: E501
])  # fmt: skip
def test_what_only_resembles_a_secret_is_let_through(text: str) -> None:
    assert redact.find(text) == []


def test_invisible_and_wide_characters_and_continued_lines_do_not_hide_a_token() -> None:
    token = build("'ghp_ b36", 3)
    continued = (token[:20] + "\\\n" + token[20:], token[:9] + "\\\r\n    " + token[9:])
    for hidden in (
        *continued,
        token[:2] + "\u200b" + token[2:],
        "\u00ad".join(token),
        "".join(chr(ord(c) + 0xFEE0) for c in token),
    ):
        text = f"naïve \U0001f468\u200d\U0001f469 key {hidden} end"
        (found,) = redact.find(text)
        assert text[found.start : found.end] == hidden
        assert redact.mask(text, [found]).endswith("key [redacted: github-token] end")


def test_record_is_checked_in_every_field_and_across_its_seams() -> None:
    token = build("'ghp_ b36", 4)
    assert (
        redact.check({"title": "a", "body": "b " * 30, "tags": ["x"], "paths": None, "n": 3}) == []
    )
    for record in (
        {"title": token},
        {"tags": ["a", token]},
        {"facts": {"deep": [{"er": f"x {token}"}]}},
        {"paths": (f"a/{token}",)},
        {"new": {"password": PW}},
    ):
        assert [name for name, _ in redact.check({"body": "clean", **record})] == [
            next(iter(record))
        ]
    assert [
        name
        for name, _ in redact.check({"title": "use " + token[:12], "body": token[12:] + " now"})
    ] == ["title+body"]
    header = "-----BEGIN OPENSSH " + "PRIVATE KEY-----"
    assert redact.check({"title": header, "body": KEY * 3})[0][0] == "title+body"
    assert redact.check({"title": header, "body": "is what we look for"}) == []


PIECES = st.sampled_from(["ghp_", "password", "=", ": ", '"', "'", "://", "@", ":", "-----BEGIN ", "PRIVATE KEY-----", "Bearer ", "\u200b", "\uff47", "é", "İ", " ",  # noqa: E501
    "\n", "sk-", "eyJ", ".", "token", "key", "api_", KEY, PW, "ghp_" + KEY + KEY, "AKIA" + "IOSFODNN7EXAMPLQ", "curl -u a:", "0", "[redacted: x]"])  # fmt: skip  # noqa: E501
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("\u200b")
def test_findings_lie_inside_any_text_and_masking_removes_them(text: str) -> None:
    found = redact.find(text)
    ends = 0
    for rule, start, end in found:
        assert ends <= start < end <= len(text)
        ends = end
        assert rule
    masked = redact.mask(text, found)
    assert (masked == text) == (not found)
    kept, at = "", 0
    for _, start, end in found:
        kept, at = kept + text[at:start], end
    rest = masked
    for f in found:
        rest = rest.replace(f"[redacted: {f.rule}]", "", 1)
    assert rest == kept + text[at:]
    # what stood at a finding is found no more: a second look sees no marker as a secret
    for f in redact.find(masked):
        assert not masked[f.start : f.end].startswith("[redacted: ")


HARD = ["ghp_", "-ghp_", "eyJ", "-eyJ", "eyJaaaaaaaa.", "xoxb-", ".sk-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "login a / ", "login ", "the password is a1 ", "creds : ", "://", "://a:b", "a:b@://", "password=", "password:",  # noqa: E501
    "token: a =", "secret is ", "key ", "api_key", "bearer ", "authorization: ", "curl -u", "curl ", "a", "A1b2", "0", "\u200b", "\uff47", "-", "AKIA", "M" * 25 + ".", "sl.u.",  # noqa: E501
    "tskey-", "passphrase['", "password: a[", "secret=x1Y", "token:x1Y", "auth", "\u200bk1", "access_token$production$", "dp.pt.a", "EAAA", "1" * 9 + ":AA", "'password' : '"]  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("unit", HARD)
def test_cost_grows_with_the_text_not_with_its_square(unit: str) -> None:
    def cost(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            redact.find(text)
            best = min(best, time.process_time() - began)
        return best

    cost(1000)
    # 16 times the text: linear 16, quadratic 256; the floor keeps noise of the clock out
    assert cost(160_000) < 60 * max(cost(10_000), 0.0005)


def test_linearity_probe_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        redact,
        "_scan",
        lambda text: [("x", 0, 0) for i in range(0, len(text), 2) if text.find("~", i) > 0],
    )
    with pytest.raises(AssertionError):
        test_cost_grows_with_the_text_not_with_its_square("a")


def test_megabyte_is_read_to_its_end() -> None:
    token = build("'ghp_ b36", 5)
    assert rules("lorem ipsum " * 90_000 + token) == ["github-token"]
    assert rules("x" * 1_000_000 + " " + token) == ["github-token"]


def test_import_loads_nothing_heavy_and_clean_text_loads_no_rules_of_context() -> None:
    code = (
        "import sys, re; before = set(sys.modules); import gitmem.core.redact as r; r.find('a clean"
        " text'); print(sorted(set(sys.modules) - before))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    ).stdout
    allowed = {
        "gitmem",
        "gitmem.core",
        "gitmem.core.record_fields",
        "gitmem.core.redact",
        "gitmem.core.redact_rules",
        "gitmem.core.redact_places",
        "__future__",
        "collections.abc",
        "itertools",
    }
    assert set(json.loads(out.replace("'", '"'))) <= allowed


@pytest.mark.parametrize(
    "text",
    [
        'the password is "orbit velvet candle harbor"',
        "vault passphrase: `orbit velvet candle harbor mint`",
        "the passphrase is orbit-velvet-candle-harbor",
        '{"password": "orbit velvet candle harbor"}',
        "password = 'orbit velvet candle harbor mint lantern'",
        "The passcode was: orbit-velvet-candle-harbor.",
        'he said \\"passphrase: \\"orbit velvet candle harbor\\"\\"',
    ],
)
def test_a_passphrase_of_plain_words_is_refused_where_its_form_says_so(text: str) -> None:
    assert [f.rule for f in redact.find(text)] == ["password"], text


@pytest.mark.parametrize(
    "text",
    [
        'the password is "too short or missing"',
        'password: "enter new secret phrase"',
        "password: prod-postgres-admin-creds",
        "the password is stored hashed using bcrypt",
        "passphrase: ask once and keep it",
        'password is "required string minimum length"',
        "password: my-team-db-password",
        'password: "Orbit Velvet Candle Harbor"',
        "password: orbit-velvet-candle-harbor/login",
        "the password is sunshine",
        'passphrase: "one two three"',
        "passphrase: orbit velvet candle harbor",
        'password: "orbit orbit velvet velvet"',
        'the password is "very very hard to guess"',
        "password reset: orbit-velvet-candle-harbor",
    ],
)
def test_what_is_said_about_passwords_is_none(text: str) -> None:
    assert redact.find(text) == [], text


def test_shape_tests_can_tell_random_from_named() -> None:
    rng = random.Random(7)
    for kind, size in (("b", 24), ("l", 32), ("h", 32), ("u", 40)):
        keys = ["".join(rng.choices(ALPHABETS[kind], k=size)) for _ in range(500)]
        assert sum(map(redact_values.random_looking, keys)) > 480, kind
    assert not any(
        map(
            redact_values.random_looking,
            [
                "getUserTokenById2WithRetry",
                "gpt-4-turbo-2024-04-09",
                "path/to/file/x1y2z3w4",
                "AbstractFactoryBean3Impl",
            ],
        )
    )


@pytest.mark.parametrize(
    "text",
    ["CONTRASEÑA={}", "DB_CONTRASEÑA: {}", "export BAZA_HASŁO='{}'", "ПАРОЛЬ={}", "КЛЮЧ_ПАРОЛЯ={}"],
)
def test_a_setting_is_named_in_its_language_in_capitals_too(text: str) -> None:
    assert redact.find(text.format("swordfish"))


def test_a_stop_at_the_end_may_be_part_of_a_secret() -> None:
    assert redact.find("login: bob / M2!YqQ" + "R.")


WAYS = [
    '{"Authorization":"Token abcdef12345"}',
    "authorization:token abcdef12345",
    'HTTP_AUTHORIZATION="Token abc12345xyz"',
    'echo "$USER:hunter2x" | chpasswd',
    "echo 'root:P@ss;w0rd!' | chpasswd",
    "chpasswd <<< 'root:a(b)c9xyz'",
    "Basic/Bearer: q7Zt3LmX9vKp2RwB8nYc4HdS",
    'THE PASSPHRASE IS "orbit velvet candle harbor"',
    "| user | value |\n|---|---|\n| admin | Tr0ub4dor&3 |\n| password | see above |",
]
PROSE = [
    "authorization rework: revert basic 3fa9c1d2e4",
    "see authorization; bearer rfc6750x1",
    "OAuth 2.0 Device Authorization RFC8628.",
    "Reverts authorization 3fa9c1d.",
    "please fix login with github/oauth2app!",
]


@pytest.mark.parametrize("text", WAYS)
def test_a_secret_is_found_in_its_place(text: str) -> None:
    assert redact.find(text)


@pytest.mark.parametrize("text", PROSE)
def test_prose_about_authorization_is_no_secret(text: str) -> None:
    assert not redact.find(text)
