"""Commands with a place where only a secret can stand: `mysql -pX`, `docker login -p X`.

Owns the table: names, a word that must stand behind one of them, and the options whose value is
the secret. An option is sought in the 400 characters behind the name, up to the end of the
command. Always loaded, as data: a text is compared with the names before anything is compiled.
"""

from gitmem.core.redact_rules import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Found = list[tuple[str, int, int]]
    Test = Callable[[str], bool]

# a word of a shell, in quotes or bare; `-P wants a password` is prose
V = (
    r"(?:\"([^\"\n]{3,256})\"|'([^'\n]{3,256})'|"
    r"(?![a-z]{2,20}\s(?:an?|the|no|its|your)\s)([^\s\"'`|;<>()]{3,256}))"
)
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
    (
        "curl",
        "",
        r"\s(?:-\w{0,4}[uU]|--user|--proxy-user)[ =]?[\"']?"
        r"[^\s:\"'$<{]{1,64}:([^\s\"'`]{4,128})",
    ),
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
    (
        "runas",
        "",
        r"\s/user:\S{1,64}\s+(?!/|\S*(?:\\|\.(?:exe|msc|bat|cmd|ps1)\b))"
        rf"(?=\S*[\d!@#$%^&*?+~]){V}",
    ),
    (_IMPACKET, "", r"\s[\"']?(?:[\w.-]{1,64}/)?[\w.$-]{1,64}:([^\s\"'`@]{3,128})@[\w.-]"),
    ("schtasks", "", rf"\s/rp\s{V}"),
    ("net", "use", rf"\s/user:\S{{1,64}}\s+(?!/){V}|\s\\\\\S{{1,200}}\s+(?![/*]){V}(?=\s+/user)"),
    ("net", "user", r"\suser\s+\S{1,64}\s+(?![/*])([^\s\"'`|;<>()]{4,128})(?=\s+/add|\s*$)"),
    ("htpasswd", "", rf"\s-\w{{0,5}}b\w{{0,5}}\s+(?:\S{{1,200}}\s+){{1,2}}{V}\s*$"),
    ("mosquitto_passwd", "", rf"\s-b\s+\S{{1,200}}\s+\S{{1,64}}\s+{V}"),
    ("rabbitmqctl", "", rf"\s(?:add_user|change_password)\s+\S{{1,64}}\s+{V}"),
    ("wpa_passphrase", "", rf"^\s+\S{{1,64}}\s+{V}"),
    ("nmcli", "", rf"\spassword\s{V}"),
    (
        "sqlplus rman expdp impdp sqlldr sqlcl",
        "",
        # `scott/tiger` is the account of everybody's examples
        r"\s[\"']?[A-Za-z]\w{0,30}/(?!tiger\b)[\"']?([^\s\"'`@/$]{3,64})[\"']?(?:@|\s|$)",
    ),
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
)
# the same, where a plain word may stand as well: the value has to look random
LOGINS: tuple[tuple[str, str, str], ...] = (
    (
        "vault cargo snyk wandb ngrok pulumi netlify doctl travis railway",
        "",
        rf"\s(?:login|auth|authtoken|add-authtoken|auth-token)\s+(?:--relogin\s+)?{_TOKEN}",
    ),
    ("npm yarn pnpm", "", rf"(?:_authToken|_auth|_password)[ =]+{_TOKEN}"),
    ("nuget dotnet codecov doctl gem vercel netlify surge", "", _KEY_OPTION),
    ("composer poetry bundle conda", "", rf"\s(?:config|token)\s(?:\S{{1,100}}\s+)+?{_TOKEN}\s*$"),
    ("anaconda", "", rf"\s(?:config|token)\s(?:\S{{1,100}}\s+)+?{_TOKEN}\s*$"),
    ("snmpget curl http wget", "", rf"(?i)\s-H\s*[\"'][\w-]{{1,40}}:\s*(?:\w+\s+)?{_TOKEN}"),
)

NAMES = frozenset(" ".join(names for names, _, _ in COMMANDS + LOGINS).split())
_BYTES = frozenset(name.encode() for name in NAMES)
# what a shell, a sentence or Markdown has around a word, made blanks; not `:`, or every address
# would name the command `https`
BREAKS = bytes(32 if chr(c) in "`\"'$()[]{}|;&<>/\\,=#!@." else c for c in range(256))
_END = r"\n(?<!\\\n)|&&|\|\||\s\|\s|;\s"


def read(text: str, low: str, found: "Found") -> None:
    # bytes: ten times faster than `str.translate`
    names = _BYTES.intersection(low.encode("utf-8", "surrogatepass").translate(BREAKS).split())
    if not names:
        return
    from gitmem.core.redact_values import given, key

    for name in sorted(n.decode() for n in names):
        word = regex(rf"{name}(?<![\w.-]{name})(?:\.exe|\.py)?(?=\s)")
        for m in word.finditer(low):
            rest = text[m.end() : m.end() + 400]
            if end := regex(_END).search(rest):
                rest = rest[: end.start()]
            for rows, test in ((COMMANDS, given), (LOGINS, key)):
                for listed, behind, options in rows:
                    if name in listed.split() and behind in rest:
                        collect(options, rest, m.end(), test, found)


def collect(pattern: str, text: str, at: int, test: "Test", found: "Found") -> None:
    for got in regex(pattern).finditer(text):
        start, end = got.span(got.lastindex or 0)
        value = text[start:end].rstrip(".,:)]}\\")
        if ":" in value and "chpasswd" in got[0]:
            start += value.index(":") + 1
            value = value.partition(":")[2]
        if test(value):
            found.append(("password", at + start, at + start + len(value)))
