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


H32, H40, H64 = "[0-9a-f]{32}", "[0-9a-f]{40}", "[0-9a-f]{64}"
END = "(?![A-Za-z0-9])"

# rule, its literals, what follows one of them; a letter or digit before the literal is no match
PREFIXED = (
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]{36,}"),
    ("github-token", "github_pat_", "[A-Za-z0-9_]{50,}"),
    ("gitlab-token", "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- GR1348941", "[\\w.-]{20,}"),
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
    ("slack-token", "xoxb- xoxp- xoxa- xoxo- xoxs- xoxr- xoxe- xoxe. xoxc- xoxd- xapp-", "[\\w.%+/-]{20,}"),
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
    ("plaid-token", "access-sandbox- access-development- access-production-", "[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("braintree-token", "access_token$production$ access_token$sandbox$", "[a-z0-9]{16}\\$" + H32),
    ("databricks-token", "dapi", H32 + "(?:-\\d)?" + END),
    ("vault-token", "hvs. hvb. hvr.", "[\\w-]{24,}"),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "(?:[a-z][\\w-]{0,34}\\.)?[A-Za-z0-9]{40,44}"),
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
    ("launchdarkly-key", "sdk- mob-", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}" + END),
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
    ("jwt", "eyJ", "(?<![-_]eyJ)[\\w-]{8,}\\.eyJ[\\w-]{8,}\\.[\\w-]{10,}"),
)

# rule, the literal, the whole pattern where the literal is not what comes first
ANCHORED = (
    ("slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]+/[\w-]+/[\w/-]{16,}"),
    ("discord-webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{15,22}/[\w-]{50,}"),
    ("teams-webhook", ".webhook.office.com/", r"\.webhook\.office\.com/webhookb2/[0-9a-f@-]{70,}/\w+/[0-9a-f]{32}/[0-9a-f-]{36}"),
    ("telegram-bot-token", ":AA", r"(?<!\d)\d{8,10}:AA[\w-]{32,34}(?![\w-])"),
    ("discord-token", ".", r"(?<![\w.-])[MNO][A-Za-z\d_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"),
    ("azure-client-secret", "Q~", r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
    ("azure-devops-token", "AZDO", r"(?<![A-Za-z0-9])[A-Za-z0-9]{70,80}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])"),
    ("azure-storage-key", "+ASt", r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{5,6}=="),
    ("mailchimp-key", "-us", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    ("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}"),
    ("newrelic-key", "NRAL", r"(?<![A-Za-z0-9])[0-9a-fA-F]{32,36}(?:FFFF)?NRAL(?![A-Za-z0-9])"),
)  # fmt: skip


def table() -> list[tuple[str, str, str]]:
    """(literal, rule, pattern) for every literal; compiling is left to the first use."""
    rows = []
    for rule, literals, tail in PREFIXED:
        for lit in literals.split():
            esc = re.escape(lit)
            rows.append((lit, rule, f"{esc}(?<![A-Za-z0-9]{esc}){tail}"))
    rows.extend((lit, rule, pattern) for rule, lit, pattern in ANCHORED)
    return rows
