"""Places where a secret stands: options of commands, headers, URLs, markup, manifests, pipes.

A row has its rule, marks of which a text must hold one (in lower case), a pattern whose last group
that took part is the value, and the name of its test in `redact_values`. Where the pattern is a
pair, the second is looked for in what the first one matches. Loaded with every search, as data:
patterns are compiled when a text holds a mark. Each is linear in the text.
"""

from gitmem.core.redact_rules import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Found = list[tuple[str, int, int]]
    Place = tuple[str, tuple[str, ...], str | tuple[str, str], str]

# a word of a shell, in quotes or bare; `-P wants a password` is prose
V = (
    r"(?:\"([^\"\n]{3,256})\"|'([^'\n]{3,256})'|"
    r"(?![a-z]{2,20}\s(?:an?|the|no|its|your)\s)([^\s\"'`|;<>()]{3,256}))"
)
NAME = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key)"
)
_FOURS = r"(?<![\w-])((?:[a-z]{4}[ \xa0-]){3}[a-z]{4})(?![\w-])"
_TAG = r"(?:\s[^<>]{0,120})?>\s{0,40}"
_Q = r"[\"']?"
# behind a pipe, what reads a password from it; `chpasswd` reads `name:password`
_READER = (
    r"(?:sudo\b[^\n|]{0,60}?\s-\w{0,4}S|(?:sudo\s+)?(?:vncpasswd|kinit|cryptsetup|"
    r"smbpasswd|passwd|su)\b|\w+\s[^\n|]{0,120}?--(?:password-stdin|with-token|passphrase-fd))"
)
_ECHO = rf"\b(?:echo|printf)\s+(?:-\w+\s+){{0,2}}(?:{_Q}%s\S{{0,8}}\s+)?"
_USER = (
    r"(?:\"[^\s\":]{1,64}:([^\s\"][^\"\n]{2,255})\"|'[^\s':]{1,64}:([^\s'][^'\n]{2,255})'|"
    r"[^\s\"'`:|;<>()]{1,64}:([^\s\"'`|;<>()]{3,256}))"
)
_AUTH = r"(?i)(?:authorization|bearer|basic)[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}[\"'`]?"
_SCHEMED = rf"{_AUTH}(?:(?:bearer|basic|token|apikey)[ \t]{{1,4}})?"
_CREDENTIAL = r"([A-Za-z0-9._~+/:-]{8,4096}+={0,2})"
_COOKIES = (
    r"(?i)\bcookie[\"'`]?\]?[ \t]{0,4}[:=][ \t]{0,4}[\"'`]?(?=[\w.%-]{1,64}=)[^\n\"'`]{0,1000}"
)
_SESSION = r"(?:sess|sid=|auth|token|jwt|login|remember|csrf|xsrf|ticket|\.sid)"
_UNREAL = (
    r"(?i:localhost\b|127\.|0\.0\.0\.0|"
    r"(?:my)?(?:host|hostname|server|domain|company)\.(?:com|org|net)(?![\w.-])|"
    r"(?:[\w-]+\.)*example\.|[\w.-]*\.(?:test|invalid|local|example)(?![\w.-])|[\w-]*(?![\w.-]))"
)
_USERINFO = r"://([^\s/:@\"'<>`]{0,255}):(?!(?i:\1)@)([^\s/@\"'<>`]{3,255})@"
_KEY_BLOCK = (
    r"---- ?-?BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)? ?-?----"
    r"(?:[^-]|-(?!----))*+(?:-----END [A-Z0-9 ]{0,60}-----)?"
)
_PHRASE = (
    r"(?i:passwords?|passphrases?|passcodes?)[\"'`]?"
    r"(?:[ \t]{1,4}(?i:is|was)[ \t:]{1,4}|[ \t]{0,4}(?::=|[=-]>|[:=→⇒➜])[ \t]{0,4})"
    r"(?:\\?([\"'`])((?:[a-z]{3,12}[ -]){3,9}[a-z]{3,12})\\?\1|"
    r"((?:[a-z]{3,12}-){3,9}[a-z]{3,12})(?![\w/:@(\[-]|\.\w))"
)

PLACES: tuple["Place", ...] = (
    # a header alone is prose about keys; with 20 characters of base64 behind it, it is a key
    ("private-key", ("---begin", "--- begin"), _KEY_BLOCK, "key_block"),
    # the user of a Sentry address is public: it stands in every page that reports errors
    ("url-credentials", ("://",),
     r"://([^\s/:@\"'<>`]{16,255})@(?!(?i:[\w.-]*\.)?sentry\.io(?![\w.-]))", "random_looking"),
    ("url-credentials", ("://",), _USERINFO, "likely"),
    # a plain word counts where the host is a real one
    ("url-credentials", ("://",), rf"{_USERINFO}(?!{_UNREAL})", "plain_word"),
    ("cookie", ("cookie",),
     (_COOKIES, rf"(?i)(?<![\w.%-])(?=[\w.%-]{{0,60}}{_SESSION})"
      r"[\w.%-]{1,64}=([^\s;,]{10,512})"),
     "session"),
    ("cookie", ("cookie",), (_COOKIES, r"[\w.%-]{1,64}=([^\s;,]{8,512})"), "random_looking"),
    ("password", ("echo ", "printf "), rf"{_ECHO}{V}\s*\|\s*{_READER}", "given"),
    ("password", ("<<<",),
     rf"\b(?:sudo|cryptsetup|docker|gpg|kinit|(?:smb|vnc)?passwd)\b[^\n|<]{{0,120}}<<<\s*{V}",
     "given"),
    ("password", ("securestring",),
     rf"(?i)convertto-securestring\s+(?:-(?:string|asplaintext|force)\s+){{0,3}}{V}", "given"),
    ("password", ("assword",),
     r"assword[^\n]{0,60}\n?[^\n]{0,20}send(?:line\(|\s+(?:--\s+)?)"
     r"[\"']([^\"'\n]{4,64}?)(?:\\[rn])?[\"']", "given"),
    ("password", ("send \"", "send -- \""), r"\bsend\s+(?:--\s+)?\"([^\"\s]{4,64})\\[rn]\"",
     "likely"),
    ("password", ("@tcp(", "@unix("),
     r"(?<![\w.-])[\w.-]{1,64}+:([^\s:@\"'`]{3,128})@(?:tcp|unix)\(", "chosen"),
    ("password", ("private-lines",),
     r"(?i)private-lines:\s*\d+\s+([A-Za-z0-9+/]{12,}={0,2})", "real"),
    ("password", ("\"kty\"",), r"\"[dk]\"\s*:\s*\"([\w-]{22,})\"", "real"),
    # files of one line each
    ("password", ("pgpass", ":5432:", ":*:"),
     r"(?m)(?:^|[\s\"'`])[\w.*-]{1,100}:(?:\d{4,5}|\*):[\w*-]{1,63}:[A-Za-z*][\w.@-]{0,63}:"
     r"([^\s:\"'`]{4,128})(?=[\"'`]?(?:\s|$))", "given"),
    ("password", ("identified by", "psk"), r"(?i)(?:identified\s+by|\bpsk\s?=)\s*(?:password\s*)?"
     r"(?:'([^'\n]{3,64})'|\"([^\"\n]{3,64})\")", "given"),
    ("password", ("mnemonic", "phrase"),
     r"(?:mnemonic|phrase|seed|words)\b[\"'`]?(?:\s+(?:is|was))?\s{0,4}[:=]?\s{0,4}[\"'`]?"
     r"((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b", "mnemonic"),
)  # fmt: skip

# Looked for where a text has one of TELLING, so that other texts pay for few marks.
_ROW, _PASSWORD = r"[ \t]{0,20}+\|", "(?:passw|passphrase|pwd)"
# The word for `password` in other languages, as it begins; more are seen by `pass`.
FOREIGN = ("kennwort", "senha", "wachtwoord", "heslo", "haslo", "contrasena")
# Whole words stand before their beginnings: the first that fits is taken, and `=` has to follow it.
SCRIPTS = tuple(
    "contraseña contraseñ lösenord hasło hasł пароль пароля парол 密码 "
    "密碼 パスワード 비밀번호"
    " şifre jelszó".split()
)
TELLING = tuple("pass secret token key pw auth cred bearer basic login logon".split())
TOLD: tuple["Place", ...] = (
    ("authorization", ("bearer", "authorization"),
     rf"{_SCHEMED}(?![_./:-]{{0,2}}(?i:bearer|basic|authoriz)){_CREDENTIAL}", "random_looking"),
    ("authorization", ("bearer", "authorization", "basic"),
     rf"(?i)(?:basic[\"']?|authorization[^\n]{{0,12}}\bbasic)[ \t]{{1,4}}{_CREDENTIAL}", "basic"),
    ("authorization", ("authorization",),
     r"(?i)authorization[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}[\"'`]?"
     rf"(?:(?:bearer|basic|token|apikey)[ \t]{{1,4}})?(?<=[ \t]){_CREDENTIAL}", "short"),
    # any scheme with its parameters: `AWS4-HMAC-SHA256 Credential=..., Signature=...`
    ("authorization", ("authorization",),
     (r"(?i)authorization[\"'`]?\]?[ \t]{0,4}[:=,][ \t]{0,4}[\"'`]?(?=\w)[^\n]{0,600}",
      r"/{0,9}([A-Za-z0-9._~+-][A-Za-z0-9._~+/-]{15,511}+={0,2}+)(?!\()"), "hashed"),
    # a name, a slash or colon, and letters, digits and signs
    ("password", ("login", "logon", "cred"),
     r"(?i)\b(?:login|logon|creds|credentials)\b[ \t:]{1,4}(?:(?:is|are|with)[ \t]{1,4})?"
     r"[\w.@+-]{2,64}(?: / |[/:])([^\s\"'`/,;()<>\[\]{}]{8,64})", "mixed"),
    # four plain words and more, in quotes or joined by hyphens; bare words are prose
    ("password", ("passphrase", "password", "passcode"), _PHRASE, "phrase"),
    ("password", ("chpasswd",),
     rf"{_ECHO}{_USER}\s*\|\s*(?:sudo\s+)?chpasswd|chpasswd\b[^\n|<]{{0,120}}<<<\s*{_USER}",
     "given"),
    ("password", ("credential", "basicauth", ".login(", "auth=(", "auth = (", ".auth("),
     r"(?i)(?:networkcredential|pscredential|basicauth|\.login|\.auth|auth ?= ?)(?:\]::new)?\(\s*"
     r"[\"'][^\"'\n]{1,64}[\"']\s*,\s*[\"']([^\"'\n]{4,128})[\"']", "likely"),
    ("password", ("password(",), r"(?i)\bpassword\(\s*['\"]([^'\"\n]{4,64})['\"]", "likely"),
    ("password", ("password(", "passphrase("),
     r"(?i)\bset_?\w{0,30}pass(?:word|phrase)\(\s*\\?['\"]([^'\"\s\\]{4,64})\\?['\"]", "chosen"),
    # the configuration of a Cisco router: 0 stands before plain text, 7 before what can be undone
    ("password", ("secret 0 ", "secret 7 ", "password 0 ", "password 7 "),
     r"(?i)\b(?:enable|username\s+\S{1,64}(?:\s+privilege\s+\d+)?)\s+"
     rf"(?:secret|password)\s+[07]\s+{V}", "given"),
    # what Google makes, four times four letters
    ("password", ("app password", "app-password", "specific password"),
     rf"\b(?i:app(?:-specific)?[ -]password)s?\b[\s\S]{{0,40}}?{_FOURS}", "letters"),
    ("password", ("app password", "app-password"),
     rf"{_FOURS}[\s\S]{{0,20}}?\b(?i:app[ -]password)", "letters"),
    ("password", ("-pass", "pass "), rf"\s--?[\w.-]{{0,30}}pass[= ]{V}", "likely"),
    ("password", ("sonar.login",), rf"sonar\.login{_Q}\s*[:=]\s*{_Q}(\w{{40,50}})", "real"),
    ("password", ("client-key-data",),
     rf"client-key-data{_Q}\s*:\s*{_Q}([A-Za-z0-9+/]{{40,}}={{0,2}})", "real"),
    ("password", ("password ", "passwd ", "requirepass", "masterauth"),
     r"(?mi)^[ \t]{0,40}+(?:password|passwd|requirepass|masterauth)[ \t]+(?:[07][ \t]+)?"
     r"[\"']?([^\s\"'=:]{6,128})[\"']?[ \t]*$", "line"),
    ("password", ("pwd", "password"),
     r"(?i)\b(?:user ?id|uid|username|user|server|data source|host|database)"
     r"\s{0,3}=[^;\n\"']{1,100};(?:[^;\n\"'=]{1,40}=[^;\n\"'=]{0,100};){0,8}\s{0,3}"
     r"(?:pwd|password)\s{0,3}=\s{0,3}([^;\"'\s]{4,128})", "given"),
    ("password", ("otpauth://",), r"otpauth://[^\s]{0,200}[?&]secret=([A-Z2-7a-z]{16,})", "real"),
    # the cells of a table that tells of passwords: letters, digits and signs in one word
    ("password", ("|",),
     (rf"(?mi)(?:^{_ROW}(?![^\n]*{_PASSWORD})[^\n]*+\n){{0,50}}+"
      rf"^{_ROW}[^\n]*?{_PASSWORD}[^\n]*+(?:\n{_ROW}[^\n]*+)*+",
      r"\|[ \t`*]*+([^\s|`*]{6,64})(?=[ \t`*]*+\|)"), "signed"),
    ("password", ("env ", "arg "),
     r"(?mi)^[ \t]{0,40}+(?:env|arg)[ \t]{1,8}\w{0,40}(?:pass|password|pwd|secret|token|key)\s+"
     rf"{V}", "likely"),
    ("password", ("</",),
     r"(?i)<(?:[\w-]{1,30}:)?[\w.-]{0,40}(?:passw(?:or)?d|passphrase|pwd)[\w.-]{0,20}"
     rf"{_TAG}([^<>\s]{{4,256}})\s{{0,40}}</", "given"),
    ("password", ("</",), rf"(?i)<(?:[\w-]{{1,30}}:)?[\w.-]{{0,40}}{NAME}[\w.-]{{0,20}}"
     rf"{_TAG}([^<>\s]{{8,2048}})\s{{0,40}}</", "likely"),
    ("password", ("<string>", "\">", "'>"),
     rf"(?i){NAME}[\w.-]{{0,20}}(?:</key>\s{{0,40}}<string>|[\"']>)([^<>\s]{{4,256}})<", "likely"),
    ("password", ("value",),
     rf"(?i)(?:name|key){_Q}\s{{0,4}}[:=]\s{{0,4}}{_Q}[\w.:-]{{0,40}}{NAME}[\w.-]{{0,20}}{_Q}"
     rf"\s{{0,4}},?\s{{0,40}}(?<=[\s,]){_Q}value{_Q}\s{{0,4}}[:=]\s{{0,4}}"
     r"(?:\"([^\"\n]{4,256})\"|'([^'\n]{4,256})'|([^\s\"'`,}<>]{4,256}))", "likely"),
    ("password", ("machine", "default login"), r"\b(?:machine\s+\S{1,200}|default)\s+login\s+"
     r"\S{1,80}\s+(?:account\s+\S{1,80}\s+)?password\s+([^\s\"'`]{4,128})", "given"),
    # keys of wallets
    ("password", ("priv",), r"(?i)priv(?:ate)?[ _-]?key\b[^\n]{0,24}?(?<![0-9a-f])"
     r"((?:0x)?[0-9a-f]{64})(?![0-9a-f])", "real"),
    ("password", ("priv",),
     r"(?i)\b(0x[0-9a-f]{64})(?![0-9a-f])[^\n]{0,24}?\bpriv(?:ate)?[ _-]?key\b", "real"),
)  # fmt: skip

# glued to `-p`; `-pretty` and `-proxy` are options of their own
_GLUED = rf"p(?!r(?:etty|oxy|int|ogress|otocol|ofile)\b|(?:ort|ath|arallel|lugin)\b){V}"
_P = rf"\s-p[ =]?{V}"
_LONG = rf"\s--?pass(?:word|wd)?[ =]{V}"
_PERCENT = r"\s(?:-U|--user)[ =]?[\"']?[^\s\"'%]{1,64}%([^\s\"'`]{3,128})"
_TOKEN = r"[\"']?([\w+/=~.-]{16,400})"
_KEY_OPTION = rf"\s(?:setapikey|-k|--key|--api-key|-t|--token|--auth)[ =]+{_TOKEN}"
_TOOLS = (
    "psexec smbexec wmiexec atexec dcomexec secretsdump mssqlclient getuserspns getnpusers gettgt "
    "getst smbclient lookupsid samrdump rpcdump reg services addcomputer dacledit".split()
)
_IMPACKET = " ".join([f"impacket-{t}" for t in _TOOLS] + _TOOLS[:10])

# names of commands, a word that must stand behind one of them, and the options whose value is the
# secret, in the 400 characters behind the name, up to the end of the command
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck", "", rf"\s-{_GLUED}|{_LONG}"),
    ("mysqlbinlog mysqlpump mysqlslap mysql_upgrade mysqlsh mycli", "", rf"\s-{_GLUED}|{_LONG}"),
    ("mariadb mariadb-dump mariadb-admin mariadb-backup", "", rf"\s-{_GLUED}|{_LONG}"),
    ("mariadb-check", "", rf"\s-{_GLUED}|{_LONG}"),
    ("7z 7za 7zr 7zz rar unrar", "", rf"\s-h?{_GLUED}"),
    ("docker podman nerdctl buildah skopeo helm oras crane oc az", "login", rf"{_P}|{_LONG}"),
    ("ibmcloud cf argocd", "login", rf"{_P}|{_LONG}"),
    ("sshpass mongo mongosh mongodump mongorestore mongoimport mongoexport", "", rf"{_P}|{_LONG}"),
    ("cypher-shell cqlsh twine rabbitmqadmin psexec psexec64 ncftp ncftpput", "", rf"{_P}|{_LONG}"),
    ("ncftpget evil-winrm crackmapexec netexec nxc smbmap rdesktop usermod", "", rf"{_P}|{_LONG}"),
    ("useradd clickhouse-client svn influx ipa winrm winrs", "", rf"{_P}|{_LONG}"),
    ("plink pscp psftp", "", rf"\s-pw\s+{V}"),
    ("redis-cli valkey-cli keydb-cli", "", rf"\s-a[ =]?{V}|\s--pass[ =]{V}"),
    ("ldapsearch ldapadd ldapmodify ldapdelete ldappasswd ldapwhoami", "", rf"\s-w\s?{V}"),
    ("ldapcompare", "", rf"\s-w\s?{V}"),
    ("ldappasswd", "", rf"\s-[as]\s?{V}"),
    ("smbclient rpcclient smbget smbtree smbcacls", "", _PERCENT),
    ("curl", "",
     r"\s(?:-\w{0,4}[uU]|--user|--proxy-user)[ =]?[\"']?[^\s:\"'$<{]{1,64}:([^\s\"'`]{4,128})"),
    ("lftp ncftp", "", r"\s-u ?[\"']?[^\s,\"']{1,64},([^\s\"'`]{3,128})"),
    ("http https ab xh", "", r"\s-[aA][ =]?[\"']?[^\s:\"'$<{]{1,64}:([^\s\"'`]{4,128})"),
    ("wget aria2c", "", rf"\s--(?:http-|ftp-|proxy-)?passw(?:or)?d[ =]{V}"),
    ("sqlcmd bcp isql osql tsql sqsh ipmitool", "", rf"\s-P\s?(?!\S{{1,200}}\.zip\b){V}"),
    ("mosquitto_pub mosquitto_sub zip zipcloak unzip", "", rf"\s-P\s?(?!\S{{1,200}}\.zip\b){V}"),
    ("ssh-keygen", "", rf"\s-[NP]\s{V}"),
    ("openssl", "", r"\s-pass(?:in|out)?\s[\"']?pass:([^\s\"'`|;<>()]{4,128})" rf"|\s-k\s{V}"),
    ("gpg gpg2 borg duplicity", "", rf"\s--passphrase[ =]{V}"),
    ("keytool jarsigner", "", rf"\s-(?:store|key|deststore|srcstore|destkey)pass\s{V}"),
    ("snmpget snmpwalk snmpset snmpbulkwalk", "", rf"\s-[AXc]\s(?!(?:public|private)\b){V}"),
    ("snmp-server", "community", rf"\scommunity\s+(?!(?:public|private)\b){V}"),
    ("xfreerdp xfreerdp3 wlfreerdp sdl-freerdp cmdkey wmic", "", rf"\s/p(?:ass|assword)?:{V}"),
    # a program may stand there as well: it has no digit and no sign
    ("runas", "", r"\s/user:\S{1,64}\s+(?!/|\S*(?:\\|\.(?:exe|msc|bat|cmd|ps1)\b))"
     rf"(?=\S*[\d!@#$%^&*?+~]){V}"),
    (_IMPACKET, "", r"\s[\"']?(?:[\w.-]{1,64}/)?[\w.$-]{1,64}:([^\s\"'`@]{3,128})@[\w.-]"),
    ("schtasks", "", rf"\s/rp\s{V}"),
    ("net", "use", rf"\s/user:\S{{1,64}}\s+(?!/){V}|\s\\\\\S{{1,200}}\s+(?![/*]){V}(?=\s+/user)"),
    ("net", "user", r"\suser\s+\S{1,64}\s+(?![/*])([^\s\"'`|;<>()]{4,128})(?=\s+/add|\s*$)"),
    ("htpasswd", "", rf"\s-\w{{0,5}}b\w{{0,5}}\s+(?:\S{{1,200}}\s+){{1,2}}{V}\s*$"),
    ("mosquitto_passwd", "", rf"\s-b\s+\S{{1,200}}\s+\S{{1,64}}\s+{V}"),
    ("rabbitmqctl", "", rf"\s(?:add_user|change_password)\s+\S{{1,64}}\s+{V}"),
    ("wpa_passphrase", "", rf"^\s+\S{{1,64}}\s+{V}"),
    ("nmcli", "", rf"\spassword\s{V}"),
    # `scott/tiger` is the account of everybody's examples
    ("sqlplus rman expdp impdp sqlldr sqlcl", "",
     r"\s[\"']?[A-Za-z]\w{0,30}/(?!tiger\b)[\"']?([^\s\"'`@/$]{3,64})[\"']?(?:@|\s|$)"),
    ("kubectl oc", "secret", r"--from-literal[ =][\"']?[\w.-]{1,64}=[\"']?([^\s\"'`]{4,256})"),
    ("aws", "configure", r"\sset\s+\S{0,64}(?:secret|token)\S{0,64}\s+(\S{8,2048})"),
    ("mc mcli", "", rf"\s(?:alias\s+set|config\s+host\s+add)(?:\s+\S{{1,200}}){{3}}\s+{V}"),
    ("erl iex elixir rabbitmqctl", "", rf"\s-?-(?:set|erlang-)?cookie\s{V}"),
    ("x11vnc", "", rf"\s-passwd\s{V}"),
    ("rclone", "obscure", rf"\sobscure\s+{V}"),
    ("qpdf", "", rf"--encrypt\s+{V}"),
    ("git", "config", rf"\s\S{{0,64}}\.password\s+{V}"),
    ("bundle", "config", r"\s\S{1,100}\s+[\"']?[\w.-]{1,64}:([^\s\"'`]{4,128})"),
    ("composer poetry", "config", rf"basic\S{{0,100}}\s+\S{{1,64}}\s+{V}"),
)  # fmt: skip
# the same, where a plain word may stand as well: the value has to look random
LOGINS: tuple[tuple[str, str, str], ...] = (
    ("vault cargo snyk wandb ngrok pulumi netlify doctl travis railway", "",
     rf"\s(?:login|auth|authtoken|add-authtoken|auth-token)\s+(?:--relogin\s+)?{_TOKEN}"),
    ("npm yarn pnpm", "", rf"(?:_authToken|_auth|_password)[ =]+{_TOKEN}"),
    ("nuget dotnet codecov doctl gem vercel netlify surge", "", _KEY_OPTION),
    ("composer poetry bundle conda", "", rf"\s(?:config|token)\s(?:\S{{1,100}}\s+)+?{_TOKEN}\s*$"),
    ("anaconda", "", rf"\s(?:config|token)\s(?:\S{{1,100}}\s+)+?{_TOKEN}\s*$"),
    ("snmpget curl http wget", "", rf"(?i)\s-H\s*[\"'][\w-]{{1,40}}:\s*(?:\w+\s+)?{_TOKEN}"),
)  # fmt: skip

_by_name: dict[str, list[tuple[str, str, str]]] = {}  # (word behind it, options, test)
for _rows, _test in ((COMMANDS, "given"), (LOGINS, "key")):
    for _names, _behind, _pattern in _rows:
        for _name in _names.split():
            _by_name.setdefault(_name, []).append((_behind, _pattern, _test))
# what a shell, a sentence or Markdown has around a word, made blanks; not `:`, or every address
# would name the command `https`
_BREAKS = bytes(32 if chr(c) in "`\"'$()[]{}|;&<>/\\,=#!@." else c for c in range(256))
_END = r"\n(?<!\\\n)|&&|\|\||\s\|\s|;\s"


def _by_mark(table: "Iterable[Place]") -> "dict[str, list[Place]]":
    rows: dict[str, list[Place]] = {}
    for row in table:
        for mark in row[1]:
            rows.setdefault(mark, []).append(row)
    return rows


_places, _told = _by_mark(PLACES), _by_mark(TOLD)


def read(text: str, low: str, words: list[str], telling: bool) -> "Found":
    """What the rows find. `low`: the text in lower case; `telling`: it has one of TELLING."""
    rows = [row for mark, some in _places.items() if mark in low for row in some]
    if telling:
        rows += [row for mark, some in _told.items() if mark in low for row in some]
    found: Found = []
    for rule, _, pattern, test in dict.fromkeys(rows):
        outer, inner = pattern if isinstance(pattern, tuple) else ("", pattern)
        spans = [m.span() for m in regex(outer).finditer(text)] if outer else [(0, len(text))]
        for start, end in spans:
            found += _values(rule, inner, text[start:end], start, test)
    # what stands beside a command, unless it is a word of its own
    if any(mark in text for mark in ("`", " -", " /", ".py ")) or _by_name.keys() & words:
        found += _options(text, low)
    return found


def _options(text: str, low: str) -> "Found":
    """What stands behind the options of commands."""
    found: Found = []
    # bytes: ten times faster than `str.translate`
    words = (
        low.encode("utf-8", "surrogatepass").translate(_BREAKS).decode("utf-8", "replace").split()
    )
    for name in sorted(_by_name.keys() & words):
        for m in regex(rf"{name}(?<![\w.-]{name})(?:\.exe|\.py)?(?=\s)").finditer(low):
            rest = text[m.end() : m.end() + 400]
            if end := regex(_END).search(rest):
                rest = rest[: end.start()]
            for behind, options, test in _by_name[name]:
                if behind in rest:
                    found += _values("password", options, rest, m.end(), test)
    return found


def _values(
    rule: str, pattern: str, text: str, at: int, test: str
) -> "Iterator[tuple[str, int, int]]":
    from gitmem.core import redact_values

    passes = getattr(redact_values, test)
    for got in regex(pattern).finditer(text):
        start, end = got.span(got.lastindex or 0)
        value = text[start:end]
        # the end of a sentence, or a part of the secret
        shorter = value if rule == "private-key" else value.rstrip(".,:)]}\\")
        for found in dict.fromkeys((shorter, value.rstrip(":)]}\\"))):
            if passes(found):
                yield rule, at + start, at + start + len(found)
                break
