"""The vendors' documented token shapes, one row each.

Owns the table and the cache of compiled patterns. A rule has a literal that its token must contain,
so clean text pays one `in` a rule and compiles nothing. Every pattern is linear: what precedes a
token is tested right after the literal, before the run is read, and a repeated class that something
must follow is bounded, or cannot hold the literal that would start it anew.

The shapes are facts taken from the vendors' public documentation.
"""

import re

_compiled: dict[str, "re.Pattern[str]"] = {}


def regex(pattern: str, flags: int = 0) -> "re.Pattern[str]":
    """Compiled on first use: all of them at once would cost every command 30 ms."""
    known = _compiled.get(pattern)
    if known is None:
        known = _compiled[pattern] = re.compile(pattern, flags)
    return known


H32, H40, H48, H64 = "[0-9a-f]{32}", "[0-9a-f]{40}", "[0-9a-f]{48}", "[0-9a-f]{64}"
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
END = "(?![A-Za-z0-9])"

# rule, its literals, what follows one of them; a letter or digit before the literal is no match
PREFIXED = (
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]{36,}"),
    ("github-token", "github_pat_", "[A-Za-z0-9_]{50,}"),
    (
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- GR1348941",
        "[\\w.-]{20,}",
    ),
    ("bitbucket-token", "ATBB", f"[A-Za-z0-9=_-]{{24,}}{END}"),
    ("atlassian-token", "ATATT3x ATCTT3x", "[A-Za-z0-9=_-]{60,}"),
    ("aws-access-key", "AKIA ASIA ABIA ACCA", f"[A-Z0-9]{{16}}{END}"),
    ("aws-bedrock-key", "ABSK", "[A-Za-z0-9+/]{100,}={0,2}"),
    ("google-api-key", "AIza", "[\\w-]{35}(?![\\w-])"),
    ("google-oauth-secret", "GOCSPX-", "[\\w-]{28}"),
    ("google-oauth-token", "ya29.", "[\\w.-]{30,}"),
    ("google-refresh-token", "1//0", "[\\w-]{30,}"),
    ("azure-storage-key", "AccountKey=", "[A-Za-z0-9+/]{86}=="),
    ("azure-shared-access-key", "SharedAccessKey=", "[A-Za-z0-9+/]{40,86}={0,2}"),
    (
        "slack-token",
        "xoxb- xoxp- xoxa- xoxo- xoxs- xoxr- xoxe- xoxe. xoxc- xoxd- xapp-",
        "[\\w.%+/-]{20,}",
    ),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ sk_org_ whsec_", "[A-Za-z0-9+/=_]{16,}"),
    ("anthropic-key", "sk-ant-", "[\\w-]{20,}"),
    ("openai-key", "sk-", "(?!ant-)[\\w-]{20,}"),
    ("huggingface-token", "hf_ api_org_", f"[A-Za-z0-9]{{34,}}{END}"),
    ("groq-key", "gsk_", "[A-Za-z0-9]{40,}"),
    ("xai-key", "xai-", "[A-Za-z0-9]{60,}"),
    ("perplexity-key", "pplx-", "[A-Za-z0-9]{40,}"),
    ("replicate-token", "r8_", f"[A-Za-z0-9]{{37,}}{END}"),
    ("nvidia-key", "nvapi-", "[\\w-]{60,}"),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_", "[0-9a-f]{32}_[0-9a-f]{10}"),
    ("npm-token", "npm_", f"[A-Za-z0-9]{{36}}{END}"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw", "[\\w-]{50,}"),
    ("rubygems-key", "rubygems_", "[0-9a-f]{48}"),
    ("crates-token", "cio", f"[A-Za-z0-9]{{32}}{END}"),
    ("nuget-key", "oy2", f"[a-z0-9]{{43}}{END}"),
    ("clojars-token", "CLOJARS_", "[a-z0-9]{60}"),
    ("docker-token", "dckr_pat_ dckr_oat_", "[\\w-]{24,}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", H64),
    ("heroku-key", "HRKU-", "[\\w-]{36,}"),
    ("sendgrid-key", "SG.", "[\\w-]{16,32}\\.[\\w-]{16,64}"),
    ("mailgun-key", "key- pubkey-", H32 + END),
    ("brevo-key", "xkeysib- xsmtpsib-", H64 + "-[A-Za-z0-9]{16}"),
    ("resend-key", "re_", f"[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{20,}}{END}"),
    ("twilio-key", "SK", H32 + END),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_ shpua_", "[0-9a-fA-F]{32}"),
    ("square-token", "sq0atp- sq0csp- sq0idp-", "[\\w-]{22,}"),
    ("square-token", "EAAA", "(?<![+/]EAAA)[\\w-]{60}(?![\\w+/-])"),
    ("facebook-token", "EAAC EAAG EAAB EAAJ", "(?<![+/]EAA.)[A-Za-z0-9]{100,}(?![\\w+/=-])"),
    (
        "plaid-token",
        "access-sandbox- access-development- access-production-",
        "[0-9a-f]{8}-[0-9a-f-]{27}",
    ),
    ("braintree-token", "access_token$production$ access_token$sandbox$", "[a-z0-9]{16}\\$" + H32),
    ("databricks-token", "dapi", H32 + "(?:-\\d)?" + END),
    ("vault-token", "hvs. hvb. hvr.", "[\\w-]{24,}"),
    (
        "doppler-token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        "(?:[a-z][\\w-]{0,34}\\.)?[A-Za-z0-9]{40,44}",
    ),
    ("grafana-token", "glsa_", "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    ("grafana-token", "glc_ eyJrIjoi", "[A-Za-z0-9+/_-]{32,}={0,2}"),
    ("newrelic-key", "NRAK- NRII- NRIQ- NRRA- NRSP-", "[A-Za-z0-9_-]{25,}"),
    ("sentry-token", "sntrys_", "[A-Za-z0-9+/=_]{60,}"),
    ("sentry-token", "sntryu_ sntrya_", H64),
    ("linear-key", "lin_api_ lin_oauth_ lin_wh_", "[A-Za-z0-9]{32,}"),
    ("notion-token", "secret_", f"[A-Za-z0-9]{{43}}{END}"),
    ("notion-token", "ntn_", "[A-Za-z0-9]{40,}"),
    ("figma-token", "figd_ figu_ figo_ figdr_ figur_ figor_", "[\\w-]{38,}"),
    ("postman-key", "PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}"),
    ("pulumi-token", "pul-", H40 + END),
    ("airtable-token", "pat", f"[A-Za-z0-9]{{14}}\\.{H64}{END}"),
    ("dropbox-token", "sl.", "(?:u\\.)?[\\w-]{120,}"),
    ("dynatrace-token", "dt0c01. dt0s16.", "[A-Z0-9]{8,24}\\.[A-Z2-7]{60,}"),
    ("contentful-token", "CFPAT-", "[\\w-]{43}"),
    ("jfrog-key", "AKCp", "[A-Za-z0-9]{65,}"),
    (
        "launchdarkly-key",
        "sdk- mob-",
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}" + END,
    ),
    ("netlify-token", "nfp_", "[A-Za-z0-9]{36,}"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", "[\\w.-]{32,}"),
    ("prefect-key", "pnu_ pnb_", "[A-Za-z0-9]{36}"),
    ("snyk-token", "snyk_uat. snyk_sat.", "[\\w.-]{30,}"),
    ("sourcegraph-token", "sgp_", "(?:[0-9a-f]{16}_|local_)?" + H40),
    ("supabase-token", "sbp_ sbp_oauth_", H40),
    ("supabase-token", "sb_secret_", "[\\w-]{30,}"),
    ("tailscale-key", "tskey-", "(?:[a-z]{2,12}-)?[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}"),
    ("typeform-token", "tfp_", "[\\w.-]{40,}"),
    ("buildkite-token", "bkua_ bkct_", "[0-9a-f]{40}"),
    ("circleci-token", "CCIPAT_ CCIPRJ_", "[A-Za-z0-9]{22}_[0-9a-f]{40}"),
    ("fly-token", "fm1r_ fm1a_ fm2_ fo1_", "[A-Za-z0-9+/_-]{40,}={0,3}"),
    ("posthog-key", "phx_", "[A-Za-z0-9]{40,}"),
    ("onepassword-token", "ops_eyJ", "[A-Za-z0-9+/_-]{100,}={0,2}"),
    ("cloudflare-key", "v1.0-", "[0-9a-f]{24}-[0-9a-f]{140,}"),
    ("age-key", "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1", "[A-Z0-9]{50,}"),
    ("azure-sas", "sig=", "[A-Za-z0-9%+/]{43,}(?:=|%3[dD])"),
    ("sonar-token", "squ_ sqp_ sqa_", f"{H40}{END}"),
    ("sonar-token", "sqco_", f"[A-Za-z0-9]{{59}}{END}"),
    ("pinecone-key", "pcsk_", "[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,}"),
    ("neon-key", "napi_", "[a-z0-9]{50,}"),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_", "[A-Za-z0-9_]{24,}"),
    ("elevenlabs-key", "sk_", f"{H48}{END}"),
    ("e2b-key", "e2b_ sk_e2b_", f"{H40}{END}"),
    ("firecrawl-key", "fc-", f"{H32}{END}"),
    ("tavily-key", "tvly-", "(?:dev-|prod-)?[A-Za-z0-9-]{28,}"),
    ("razorpay-key", "rzp_live_ rzp_test_", f"[A-Za-z0-9]{{14}}{END}"),
    ("shippo-token", "shippo_live_ shippo_test_", H40 + END),
    ("easypost-key", "EZAK EZTK", f"[A-Za-z0-9]{{54}}{END}"),
    ("flutterwave-key", "FLWSECK- FLWSECK_TEST- FLWSECK_PROD-", "[A-Za-z0-9]{12,64}(?:-X)?"),
    ("frameio-token", "fio-u-", "[\\w=-]{64}"),
    ("readme-key", "rdme_", f"[a-z0-9]{{64,70}}{END}"),
    ("scalingo-token", "tk-us- tk-", "[\\w-]{48}(?![\\w-])"),
    ("adafruit-key", "aio_", f"[A-Za-z0-9]{{28}}{END}"),
    ("alibaba-key", "LTAI", f"[A-Za-z0-9]{{12,24}}{END}"),
    ("tencent-key", "AKID", f"[A-Za-z0-9]{{32}}{END}"),
    ("volcengine-key", "AKLT", "[A-Za-z0-9+/_-]{40,}={0,2}"),
    ("infracost-key", "ico-", f"[A-Za-z0-9]{{32}}{END}"),
    ("render-key", "rnd_", f"[A-Za-z0-9]{{28,36}}{END}"),
    ("ionic-token", "ion_", f"[A-Za-z0-9]{{42}}{END}"),
    ("fireworks-key", "fw_", f"[A-Za-z0-9]{{22,48}}{END}"),
    ("mapbox-token", "sk.eyJ tk.eyJ pk.eyJ", "[\\w-]{40,}\\.[\\w-]{10,}"),
    ("jfrog-token", "cmVmdGtu", f"[A-Za-z0-9]{{56}}{END}"),
    ("apify-token", "apify_api_", "[A-Za-z0-9-]{34,}"),
    ("bitbucket-token", "BBDC-", "[A-Za-z0-9+/@_-]{40,50}"),
    ("clickhouse-key", "4b1d", f"[A-Za-z0-9]{{38}}{END}"),
    ("clickup-token", "pk_", f"\\d{{5,10}}_[A-Z0-9]{{32}}{END}"),
    ("cloudflare-token", "cfut_ cfat_ cfk_", f"[A-Za-z0-9]{{40}}[a-f0-9]{{8}}{END}"),
    ("dependencytrack-key", "odt_", "[A-Za-z0-9_]{32,}"),
    ("deno-token", "ddp_ ddw_", f"[A-Za-z0-9]{{36}}{END}"),
    ("defined-token", "dnkey-", "[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    ("duffel-token", "duffel_test_ duffel_live_", "[\\w=-]{43}"),
    ("endorlabs-key", "endr+", "[A-Za-z0-9-]{16}"),
    ("figma-token", "figp_", "[\\w=-]{38,}"),
    ("flexport-token", "shltm_", "[\\w-]{40}"),
    ("fullstory-key", "na1. eu1.", "[A-Za-z0-9+/]{60,}={0,2}"),
    ("gocardless-token", "live_ sandbox_", "[\\w=-]{40}(?![\\w=-])"),
    ("harness-token", "pat. sat.", "[\\w-]{22}\\.[A-Za-z0-9]{24}\\.[A-Za-z0-9]{20}"),
    ("hubspot-token", "pat-na1- pat-na2- pat-eu1- pat-ap1-", UUID),
    ("infisical-token", "st.", f"[0-9a-f-]{{24,36}}\\.{H32}\\.{H32}"),
    ("intercom-token", "dG9rO", "[A-Za-z0-9+/]{54,}={0,2}"),
    ("intra42-secret", "s-s4t2ud- s-s4t2af-", H64),
    ("jina-key", "jina_", "[A-Za-z0-9]{32}[\\w-]{20,}"),
    ("klaviyo-key", "pk_", f"(?:[A-Za-z0-9]{{6}}_)?[0-9a-f]{{34}}{END}"),
    ("launchdarkly-key", "api-", f"{UUID}{END}"),
    ("llamacloud-key", "llx-", "[A-Za-z0-9]{40,}"),
    ("lob-key", "live_ test_", f"[0-9a-f]{{35}}{END}"),
    ("logfire-token", "pylf_v1_ pylf_v2_", "[a-z]{2}_[A-Za-z0-9]{40,}"),
    ("mailersend-token", "mlsn.", H64),
    ("mailtrap-token", "mt_", f"[A-Za-z0-9]{{40,}}{END}"),
    ("midtrans-key", "Mid-server-", "[\\w-]{20,}"),
    ("mongodb-secret", "mdb_sa_sk_", "[\\w-]{40}"),
    ("netlify-token", "nfc_ nfo_ nfb_ nfu_", "[A-Za-z0-9]{36,}"),
    ("newrelic-key", "NRJS- NRBR-", f"[0-9a-f]{{19}}{END}"),
    ("ngrok-key", "ak_ cr_", f"[A-Za-z0-9]{{27}}_[A-Za-z0-9]{{21}}{END}"),
    ("nightfall-key", "NF-", f"[A-Za-z0-9]{{32}}{END}"),
    ("octopus-key", "API-", f"[A-Z0-9]{{26,34}}{END}"),
    ("onfido-token", "api_live. api_sandbox. api_live_us. api_live_ca.", "[\\w-]{11}\\.[\\w-]{32}"),
    ("openshift-token", "sha256~", "[\\w-]{43}(?![\\w-])"),
    ("openvsx-token", "ovsxat_ ovsxp_", UUID),
    ("paddle-key", "pdl_live_apikey_ pdl_sdbx_apikey_", "[A-Za-z0-9_]{40,}"),
    ("pagarme-key", "ak_live_ ak_test_", f"[A-Za-z0-9]{{30}}{END}"),
    ("persona-key", "persona_production_ persona_sandbox_", f"{UUID}"),
    ("pganalyze-key", "pgar_", f"[A-Za-z0-9]{{27}}{END}"),
    ("polar-token", "polar_oat_ polar_pat_ polar_whs_", "[A-Za-z0-9]{30,}"),
    ("posthog-key", "phs_", "[A-Za-z0-9]{40,}"),
    ("pubnub-key", "sec-c- pub-c- sub-c-", "[A-Za-z0-9-]{36,52}={0,2}"),
    ("ramp-secret", "ramp_sec_ ramp_id_", "[A-Za-z0-9]{40,48}"),
    ("rootly-key", "rootly_", H64),
    ("runpod-key", "rpa_", f"[A-Z0-9]{{40,}}[a-z0-9]{{0,8}}{END}"),
    ("samsara-token", "samsara_api_", "[A-Za-z0-9]{30}"),
    ("segment-token", "sgp_", f"[A-Za-z0-9]{{60,64}}{END}"),
    ("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", f"[A-Za-z0-9]{{16}}{END}"),
    ("slack-token", "xwfp-", "[\\w.%+/-]{20,}"),
    ("sourcegraph-token", "slk_", H64),
    ("spectral-token", "spu-", f"[a-z0-9]{{32}}{END}"),
    ("statsig-key", "secret- console-", f"[A-Za-z0-9]{{40,44}}{END}"),
    ("stackhawk-key", "hawk.", "[\\w-]{20}\\.[\\w-]{20}"),
    ("stytch-secret", "secret-live- secret-test-", "[\\w=-]{36}"),
    ("telnyx-key", "KEY0", "[0-9A-F]{28,34}_[A-Za-z0-9]{20,}"),
    ("together-key", "tgp_v1_", "[\\w-]{40,}"),
    ("trello-token", "ATTA", f"[0-9a-f]{{60,76}}{END}"),
    ("twitter-token", "AAAAAAAAAAAAAAAAAAAAA", "[A-Za-z0-9%]{60,}"),
    ("ubidots-token", "BBFF- BBUS-", f"[A-Za-z0-9]{{30}}{END}"),
    ("valtown-token", "vtwn_", "[A-Za-z0-9]{20,}"),
    ("voiceflow-key", "VF.DM. VF.WS. VF.", "[0-9a-f]{24}\\.[A-Za-z0-9]{16}"),
    (
        "wakatime-key",
        "waka_ waka_sec_ waka_tok_",
        UUID + "|(?<=_sec_)[\\w-]{40,}|(?<=_tok_)[\\w-]{40,}",
    ),
    ("wandb-key", "wandb_v1_", "[\\w-]{60,}"),
    ("xata-key", "xau_", "[A-Za-z0-9]{30,}"),
    ("yandex-key", "AQVN", "[\\w-]{34,38}(?![\\w-])"),
    ("yandex-token", "y0_ t1.", "[\\w-]{50,}={0,2}(?:\\.[\\w-]{60,}={0,2})?"),
    ("zoho-token", "1000.", f"{H32}\\.{H32}"),
    ("zuplo-key", "zpka_", "[0-9a-f]{32}_[0-9a-f]{8}"),
    ("aiven-password", "AVNS_", "[\\w-]{19}(?![\\w-])"),
    (
        "onepassword-key",
        "A3-",
        "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
    ),
    ("google-api-key", "AQ.Ab8RN6", "[\\w-]{30,}"),
    (
        "dynatrace-token",
        "dt0s01. dt0s02. dt0s03. dt0s08. dt0s09.",
        "[A-Z0-9]{8,24}\\.[A-Z2-7]{60,}",
    ),
    ("bannerbear-key", "bb_pr_ bb_ma_", "[0-9a-f]{30}"),
    ("courier-key", "pk_prod_ pk_test_", f"[A-Z0-9]{{28}}{END}"),
    ("fleetbase-key", "flb_live_ flb_test_", f"[A-Za-z0-9]{{20}}{END}"),
    ("robinhood-key", "rh-api-", UUID),
    ("trufflehog-secret", "thog-secret-", H32),
    ("close-key", "api_", f"[A-Za-z0-9]{{22}}\\.[A-Za-z0-9]{{22}}{END}"),
    ("scaleway-key", "SCW", f"[A-Z0-9]{{17}}{END}"),
    ("salesforce-token", "00D", "[A-Za-z0-9]{12,15}![\\w.]{80,160}"),
    ("salesforce-token", "5Aep861", "[\\w.=]{60,}"),
    ("stripe-key", "sk_prod_ rk_prod_", "[A-Za-z0-9]{16,}"),
    ("vault-token", "s.", "(?<![\\w.-]s\\.)[A-Za-z0-9]{24}(?![\\w.-])"),
    ("aws-access-key", "A3T", f"[A-Z0-9]{{17}}{END}"),
    ("aws-bedrock-key", "bedrock-api-key-", "[A-Za-z0-9+/]{60,}={0,2}"),
    (
        "private-key",
        (
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS LS0tLS1CRUdJTiBQUklWQVRF LS0tLS1CRUdJTiBFQyBQUklWQVRF"
            " LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZB LS0tLS1CRUdJTiBFTkNSWVBURUQg"
            " LS0tLS1CRUdJTiBEU0EgUFJJVkFURS LS0tLS1CRUdJTiBQR1AgUFJJVkFURS"
        ),
        "[A-Za-z0-9+/]{40,}={0,2}",
    ),
    ("wallet-key", "xprv yprv zprv tprv", "[1-9A-HJ-NP-Za-km-z]{100,}"),
    ("nostr-key", "nsec1", f"[a-z0-9]{{58}}{END}"),
    ("jwt", "ZXlK", "[A-Za-z0-9+/]{80,}={0,2}"),
    ("jwt", "eyJ", "(?<![-_]eyJ)[\\w-]{8,}\\.eyJ[\\w-]{8,}\\.[\\w-]{10,}"),
)

# rule, the literal, the whole pattern where the literal is not what comes first
ANCHORED = (
    ("slack-webhook", "hooks.slack.com/",
     r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]+/[\w-]+/[\w/-]{16,}"),
    ("discord-webhook", "/api/webhooks/",
     r"discord(?:app)?\.com/api/webhooks/\d{15,22}/[\w-]{50,}"),
    ("teams-webhook", ".webhook.office.com/",
     r"\.webhook\.office\.com/webhookb2/[0-9a-f@-]{70,}/\w+/[0-9a-f]{32}/[0-9a-f-]{36}"),
    ("telegram-bot-token", ":AA", r"(?<!\d)\d{8,10}:AA[\w-]{32,34}(?![\w-])"),
    ("discord-token", ".", r"(?<![\w.-])[MNO][A-Za-z\d_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"),
    ("azure-client-secret", "Q~", r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
    ("azure-devops-token", "AZDO",
     r"(?<![A-Za-z0-9])[A-Za-z0-9]{70,80}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])"),
    ("azure-storage-key", "+ASt", r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{5,6}=="),
    ("mailchimp-key", "-us", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    ("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}"),
    ("azure-key", "JQQJ9",
     r"(?<![A-Za-z0-9])[A-Za-z0-9]{48,56}JQQJ9[A-Za-z0-9]{24,32}(?![A-Za-z0-9])"),
    ("azure-key", "AzSe", r"(?<![A-Za-z0-9])[A-Za-z0-9]{42}AzSe[A-Za-z0-9]{6}(?![A-Za-z0-9])"),
    ("azure-key", "AzFu", r"(?<![\w-])[\w-]{44}AzFu[\w-]{6}[A-Za-z0-9=]{0,4}(?![\w-])"),
    ("azure-key", "+ACR", r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{42}\+ACR[A-Za-z0-9]{6}(?![A-Za-z0-9])"),
    ("azure-key", "ACDb", r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{76}ACDb[A-Za-z0-9+/]{6}=="),
    ("azure-shared-access-key", "+ASb",
     r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{33}\+ASb[A-Za-z0-9+/]{6}="),
    ("azure-shared-access-key", "+AEh",
     r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{33}\+AEh[A-Za-z0-9+/]{6}="),
    ("azure-shared-access-key", "AIoT",
     r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{33}AIoT[A-Za-z0-9+/]{6}="),
    ("aws-signature", "X-Amz-Signature=", r"X-Amz-Signature=[0-9a-f]{64}"),
    ("coinbase-key", "/apiKeys/", rf"organizations/{UUID}/apiKeys/{UUID}"),
    ("google-signature", "X-Goog-Signature=", r"X-Goog-Signature=[0-9a-f]{64,512}"),
    ("maxmind-key", "_mmk", r"(?<![A-Za-z0-9_])[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?!\w)"),
    ("stripe-key", "_secret_", r"(?:pi|seti|cs)_[A-Za-z0-9]{20,30}_secret_[A-Za-z0-9]{20,30}"),
    ("tableau-token", "==:", r"(?<![\w+/])[A-Za-z0-9+/]{22}==:[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("teams-webhook", "/webhook/",
     rf"outlook\.office(?:365)?\.com/webhook/[0-9a-f@-]{{70,}}/\w+/[0-9a-f]{{32}}/{UUID}"),
    ("tickettailor-key", "sk_", r"(?<!\w)sk_\d{2,8}_\d{2,8}_[0-9a-f]{32}(?!\w)"),
    ("tines-webhook", ".tines.com/", r"\.tines\.com/webhook/[0-9a-f]{32}/[0-9a-f]{32}"),
    ("zapier-webhook", "hooks.zapier.com/", r"hooks\.zapier\.com/hooks/catch/\w{4,12}/\w{4,12}"),
    ("password-hash", "$2", r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}(?![./A-Za-z0-9])"),
    ("password-hash", "$6$", r"\$6\$(?:rounds=\d{1,9}\$)?[^\s$:]{1,16}\$[./A-Za-z0-9]{86}"),
    ("password-hash", "$5$", r"\$5\$(?:rounds=\d{1,9}\$)?[^\s$:]{1,16}\$[./A-Za-z0-9]{43}"),
    ("password-hash", "$y$", r"\$y\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}"),
    ("password-hash", "$1$", r"\$1\$[^\s$:]{1,8}\$[./A-Za-z0-9]{22}(?![./A-Za-z0-9])"),
    ("password-hash", "$apr1$", r"\$apr1\$[^\s$:]{1,8}\$[./A-Za-z0-9]{22}"),
    ("password-hash", "$argon2",
     r"\$argon2(?:id|i|d)\$(?:v=\d+\$)?m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]{8,64}\$"
     r"[A-Za-z0-9+/]{20,128}"),
    ("password-hash", "pbkdf2_sha",
     r"pbkdf2_sha\d{1,3}\$\d+\$[A-Za-z0-9]{4,64}\$[A-Za-z0-9+/]{27,88}={0,2}"),
    ("password-hash", "SHA", r"\{SS?HA(?:256|512)?\}[A-Za-z0-9+/]{27,128}={0,2}"),
    ("password-hash", ":::", r":\d{1,7}:[0-9a-fA-F]{32}:[0-9a-fA-F]{32}:::"),
    ("newrelic-key", "NRMA", r"(?<![A-Za-z0-9])[A-Za-z0-9]{30,44}-NRMA(?![A-Za-z0-9])"),
    ("newrelic-key", "NRAL", r"(?<![A-Za-z0-9])[0-9a-fA-F]{32,36}(?:FFFF)?NRAL(?![A-Za-z0-9])"),
)  # fmt: skip


# shapes without a literal: read where a long word has 32 letters and digits side by side
BARE = (
    ("asana-token", r"(?<![\w/])[012]/\d{13,18}(?:/\d{13,18})?:[0-9a-f]{32}(?!\w)"),
    ("mailgun-key", r"(?<![\w-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![\w-])"),
    ("webex-token", rf"(?<!\w)[A-Za-z0-9]{{64}}_[A-Za-z0-9]{{4}}_{UUID}"),
    ("zhipu-key", r"(?<![\w.])[0-9a-f]{32}\.[A-Za-z0-9]{16}(?![\w.])"),
    ("wallet-key",
     r"(?<![A-Za-z0-9])(?:5[HJK][1-9A-HJ-NP-Za-km-z]{49}|[KL][1-9A-HJ-NP-Za-km-z]{51})"
     r"(?![A-Za-z0-9])"),
    ("stellar-key", r"(?<![A-Za-z0-9])S[A-Z2-7]{55}(?![A-Za-z0-9])"),
)  # fmt: skip


Row = tuple[str, str, str]


def prefixed() -> dict[str, list[Row]]:
    """{first two characters: [(literal, rule, pattern)]}; compiling is left to the first use."""
    rows: dict[str, list[Row]] = {}
    for rule, literals, tail in PREFIXED:
        for lit in literals.split():
            esc = re.escape(lit)
            row = (lit, rule, f"{esc}(?<![A-Za-z0-9]{esc}){tail}")
            rows.setdefault(lit[:2], []).append(row)
    return rows


def anchored() -> dict[str, list[Row]]:
    """{a character of the literal: [(literal, rule, pattern)]}, rare characters first."""
    rows: dict[str, list[Row]] = {}
    for rule, lit, pattern in ANCHORED:
        mark = next((c for c in "$!~@+=:/_.-" if c in lit), "")
        rows.setdefault(mark, []).append((lit, rule, pattern))
    return rows
