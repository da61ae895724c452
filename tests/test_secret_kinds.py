"""Kinds of secrets that are known by what stands around them, and the innocent texts beside each.

A template has marks where the values go: `{P}` a password that a person chose, `{W}` a plain word
as a password, `{U}` a UUID, `{K}` a random key, `{H32}` and so on hexadecimal digits. The values
are made at run time: a scanner that reads this file finds none.
"""

import base64
import random
import time

import pytest

from gitmem.core import redact

PASSWORDS = ["Tr0ub" + "4dor&3", "hunt" + "er2hunt" + "er2", "S0mm" + "er-2024!", "kX9m" + "Q2vLp8"]
WORD = "wonder" + "land"
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BASE58 = ALNUM.translate({ord(c): None for c in "0OIl"})


def fill(template: str, seed: int) -> str:
    rng = random.Random(f"{template}{seed}")

    def pick(letters: str, size: int) -> str:
        return "".join(rng.choices(letters, k=size))

    hexed = "0123456789abcdef"
    password = PASSWORDS[seed % len(PASSWORDS)]
    marks = {
        "{P}": password,
        "{W}": WORD,
        "{B}": base64.b64encode(password.encode()).decode(),
        "{BASIC}": base64.b64encode(f"deploy:{password}".encode()).decode(),
        "{U}": "-".join(pick(hexed, n) for n in (8, 4, 4, 4, 12)),
        "{K}": pick(ALNUM, 24),
        "{K40}": pick(ALNUM, 20) + "7" + pick(ALNUM, 19),
        "{K64}": pick(ALNUM, 64),
        "{H32}": pick(hexed, 31) + "a",
        "{H40}": pick(hexed, 39) + "b",
        "{H64}": pick(hexed, 63) + "c",
        "{PEM}": base64.b64encode(b"-----BEGIN RSA " + b"PRIVATE KEY-----" + rng.randbytes(90)).decode(),
        "{B58_49}": pick(BASE58, 49),
        "{B58_51}": pick(BASE58, 51),
        "{B64_44}": base64.b64encode(rng.randbytes(32)).decode(),
        "{S53}": pick("./" + ALNUM, 53),
        "{S86}": pick("./" + ALNUM, 86),
        "{S22}": pick("./" + ALNUM, 22),
        "{B32}": pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32),
    }
    for mark, value in marks.items():
        template = template.replace(mark, value)
    return template


COMMANDS = r"""
mysql -u root -p{P} shop
mysql -uroot -p'{P}' -h db.corp shop
mysql --user=root --password={P} -e 'select 1'
mysql --password {P}
mysql -h 10.0.0.5 -u app -p{W} shop
mysqldump -u backup -p"{P}" --all-databases > dump.sql
mysqladmin -u root -p{P} ping
mariadb -u root -p{P}
mariadb-dump -uroot -p{P} shop
PGPASSWORD={P} psql -h db.corp -U app shop
PGPASSWORD='{P}' pg_dump shop
export PGPASSWORD="{P}"
psql "host=db.corp user=app password={P} dbname=shop"
psql postgres://app:{P}@db.corp:5432/shop
MYSQL_PWD={P} mysql -u root
mongo -u admin -p {P} --authenticationDatabase admin
mongosh --username admin --password {P} mongodb://db.corp
mongodump -u admin -p '{P}'
mongosh "mongodb+srv://app:{P}@cluster0.abcde.mongodb.net/shop"
redis-cli -a {P} ping
redis-cli -h cache.corp -a "{P}"
redis-cli --pass {P}
redis-cli -u redis://:{P}@cache.corp:6379
requirepass {P}
masterauth {P}
sshpass -p {P} ssh root@10.0.0.5
sshpass -p'{P}' scp a b:
sshpass -p {W} ssh root@10.0.0.5
sshpass -p"{P}" rsync -a x y:
SSHPASS={P} sshpass -e ssh root@h
docker login -u bob -p {P} registry.corp
docker login --username bob --password {P}
docker login -u=bob -p={P} registry.corp
docker login --password="{P}" -u bob registry.corp
echo {P} | docker login -u bob --password-stdin
printf '%s' '{P}' | docker login -u bob --password-stdin registry.corp
podman login -u bob -p {P} quay.io
skopeo login -u bob -p {P} quay.io
buildah login --password {P} -u bob quay.io
helm registry login -u bob -p {P} registry.corp
helm repo add corp https://charts.corp --username bob --password {P}
oc login -u admin -p {P} https://api.corp:6443
oc login --token=sha256~{K40}abc --server=https://api.corp:6443
az login -u bob@corp.net -p {P}
az login --service-principal -u {U} -p {K40} --tenant {U}
kubectl create secret generic db --from-literal=password={P}
kubectl create secret generic db --from-literal=pw='{P}'
kubectl create secret generic app --from-literal key={P}
kubectl create secret docker-registry r --docker-username=b --docker-password={P}
kubectl --token={K40} get pods
kubectl config set-credentials admin --password={P} --username=admin
kubectl config set-credentials admin --token={K40}
aws configure set aws_secret_access_key {K40}
aws configure set aws_session_token {K64}{K64}
ldapsearch -x -D cn=admin,dc=corp -w {P} -b dc=corp
ldapsearch -x -D cn=admin -w '{P}' uid=bob
ldapadd -x -D cn=admin -w {P} -f new.ldif
ldapmodify -D cn=admin -w {W} -f x.ldif
ldappasswd -x -D cn=admin -w {P} -s {P} uid=bob
smbclient //nas/share -U bob%{P}
smbclient //nas/share --user=bob%{P}
rpcclient -U 'corp\bob%{P}' dc1
mount -t cifs //nas/x /mnt -o username=bob,password={P}
7z a -p{P} x.7z dir
7z x x.7z -p'{P}'
7za x -p{W} x.7z
rar a -hp{P} x.rar dir
unrar x -p{P} x.rar
zip -P {P} x.zip a
zip -r -P '{P}' x.zip dir
unzip -P {P} x.zip
gpg --batch --passphrase {P} -c x
gpg --batch --yes --passphrase='{P}' -d x.gpg
echo {P} | gpg --batch --passphrase-fd 0 -d x.gpg
openssl enc -aes-256-cbc -pass pass:{P} -in a -out b
openssl rsa -in k.pem -passin pass:{P} -passout pass:{P}
openssl enc -aes-256-cbc -k {P} -in a
openssl pkcs12 -export -passout "pass:{P}" -in c
htpasswd -b .htpasswd bob {P}
htpasswd -cb /etc/nginx/.htpasswd bob '{P}'
htpasswd -nb bob {P}
htpasswd -bBc .htpasswd bob {P}
net use Z: \\nas\share {P} /user:bob
net use \\nas\share /user:corp\bob {P}
net user bob {P} /add
cmdkey /add:nas /user:bob /pass:{P}
psexec \\10.0.0.9 -u Administrator -p {P} cmd
PsExec64 \\srv -u corp\adm -p {P} cmd.exe
echo {P} | sudo -S apt update
echo '{P}' | sudo -S -k whoami
echo "{P}" | sudo -p '' -S systemctl restart x
printf '{P}\n' | sudo -S true
sudo -S <<< '{P}' apt update
echo 'root:{P}' | chpasswd
echo "bob:{P}" | sudo chpasswd
echo {P} | passwd --stdin bob
echo -n {P} | vncpasswd -f > ~/.vnc/passwd
echo {K40} | gh auth login --with-token
useradd -m -p {P} bob
usermod -p '{P}' bob
$p = ConvertTo-SecureString '{P}' -AsPlainText -Force
ConvertTo-SecureString -String "{P}" -AsPlainText -Force
ConvertTo-SecureString -AsPlainText -Force -String {P}
New-Object System.Net.NetworkCredential("bob", "{P}")
[PSCredential]::new('bob', '{P}')
curl -u bob:{P} https://api.corp/x
curl -s -u 'bob:{P}' https://api.corp/x
curl --user "bob:{P}" https://api.corp/x
curl -su bob:{P} https://api.corp/x
curl --proxy-user bob:{P} https://api.corp/x
curl -H 'Authorization: Bearer {K40}' https://api.corp/x
curl -H "X-Api-Key: {H32}" https://api.corp/x
curl -H "PRIVATE-TOKEN: {K}" https://git.corp/api/v4/projects
curl -b 'session={K40}' -H "Cookie: session={K40}" https://api.corp/x
curl https://api.corp/x?access_token={H40}
curl "https://api.corp/x?api_key={K}&y=1"
wget --user=bob --password={P} https://corp.net/x
wget --http-user=bob --http-password='{P}' https://corp.net/x
wget --ftp-password={P} ftp://corp.net/x
http -a bob:{P} https://corp.net/x
sqlcmd -S db.corp -U sa -P {P} -Q "select 1"
sqlcmd -S db.corp -U sa -P'{P}'
bcp shop.dbo.x out x.csv -U sa -P {P} -S db
sqlplus scott/{P}@orcl
sqlplus system/"{P}"@//db:1521/x
rman target sys/{P}@orcl
expdp system/{P}@orcl full=y
lftp -u bob,{P} ftp://corp.net
lftp -u 'bob,{P}' sftp://corp.net
ncftp -u bob -p {P} ftp.corp.net
xfreerdp /u:bob /p:{P} /v:10.0.0.5
xfreerdp /v:h /u:bob /p:'{P}'
rdesktop -u bob -p {P} 10.0.0.5
ansible-playbook site.yml -e "ansible_become_pass={P}"
ansible-playbook site.yml --extra-vars "db_password={P}"
ansible all -m ping -e 'ansible_ssh_pass={P}'
ansible-playbook x.yml --extra-vars '{{"db_password": "{P}"}}'
RSYNC_PASSWORD={P} rsync -a rsync://bob@h/x .
rsync -a --password={P} rsync://bob@h/x .
keytool -genkey -storepass {P} -keypass {P}
keytool -list -keystore x.jks -storepass {W}1
jarsigner -storepass {P} x.jar k
mosquitto_pub -u bob -P {P} -t a -m b
mosquitto_passwd -b pwfile bob {P}
rabbitmqctl add_user bob {P}
rabbitmqctl change_password bob '{P}'
rabbitmqadmin -u bob -p {P} list queues
cqlsh -u cassandra2 -p {P} db.corp
cypher-shell -u neo4j -p {P}
clickhouse-client --user default --password {P}
influx -username admin -password {P}
twine upload -u bob -p {P} dist/*
svn co --username bob --password {P} https://svn.corp/x
wpa_passphrase HomeNet {P}
nmcli dev wifi connect HomeNet password {P}
ipmitool -H bmc -U ADMIN -P {P} power status
snmpwalk -v3 -u bob -A {P} -X {P} h
plink -ssh bob@h -pw {P} ls
pscp -pw '{P}' a bob@h:
ssh-keygen -t rsa -N '{P}' -f k
ssh-keygen -p -P {P} -N {P}
evil-winrm -i 10.0.0.5 -u bob -p {P}
crackmapexec smb 10.0.0.5 -u bob -p '{P}'
vault login {K}
cargo login {K40}
snyk auth {U}
wandb login {H40}
ngrok config add-authtoken {K40}
npm config set //registry.npmjs.org/:_authToken {U}
npm config set //npm.corp/:_authToken={K40}
npm config set _auth {BASIC}
nuget setapikey {K40}
dotnet nuget push x.nupkg -k {K40} -s https://api.nuget.org
codecov -t {U}
doctl auth init -t {H64}
gem push --key {H40} x.gem
vercel deploy --token {K}
netlify deploy --auth {K40}
composer config --global github-oauth.github.com {H40}
composer config http-basic.corp.net bob {P}
mc alias set corp https://s3.corp bob {K40}
erl -sname a -setcookie {P}
git clone https://bob:{P}@git.corp/x.git
git remote set-url origin https://oauth2:{K}@git.corp/x.git
git config --global user.password {P}
sudo mysql -u root --password='{P}' <<EOF
/usr/bin/mysql -u root -p{P}
$(mysql -u root -p{P} -e 'show tables')
Ran `mysql -u root -p{P}` on db1, worked.
RUN mysql -u root -p{P} < init.sql
tailscale up --authkey={K40}
sonar-scanner -Dsonar.login={H40}
mvn sonar:sonar -Dsonar.token={H40}
mvn deploy -Drepo.password={P}
gradle publish -Psigning.password={P}
./configure.sh --db-password={P}
./run.sh --db-pass {P}
deploy --api-key {K}
deploy --token {K40}
deploy --secret={K40}
runas-like --password "{P}"
java -Djavax.net.ssl.keyStorePassword={P} -jar x.jar
bundle config gems.corp.net bob:{P}
"""

NAMED = r"""
password = {P}
password={P}
password: {P}
password : "{P}"
"password": "{P}",
'password': '{P}',
password => '{P}'
password := "{P}"
passwd={P}
PASSWORD="{P}"
DB_PASSWORD={P}
export DB_PASSWORD='{P}'
set DB_PASSWORD={P}
$env:DB_PASSWORD = "{P}"
setx DB_PASSWORD "{P}"
ENV DB_PASSWORD={P}
ENV DB_PASSWORD {P}
ARG ROOT_PASSWORD={P}
MYSQL_ROOT_PASSWORD: {P}
- MYSQL_ROOT_PASSWORD={P}
spring.datasource.password={P}
spring.datasource.password: {P}
db.password = "{P}"
password = '{P}'  # staging
password: "{P}" # staging
const password = "{P}";
let dbPassword = '{P}';
String password = "{P}";
private static final String PASSWORD = "{P}";
var pwd = "{P}";
pwd={P}
PWD={P};
pw: {P}
pass: {P}
PASS={P}
user=bob;pass={P}
SMTP_PASS={P}
EMAIL_HOST_PASSWORD = '{P}'
REDIS_PASSWORD={P}
POSTGRES_PASSWORD: "{P}"
ansible_become_pass: {P}
ansible_ssh_pass={P}
passphrase: {P}
SSH_PASSPHRASE={P}
BORG_PASSPHRASE='{P}'
RESTIC_PASSWORD={P}
KEYSTORE_PASSWORD={P}
storePassword={P}
keyPassword '{P}'
storePassword "{P}"
the password is {P}
The root password is {P} on staging
the password for the VPN is {P}
password of the admin is {P}
password for admin: {P}
the admin password on db1 is {P}
set the password to {P}
reset bob's password to {P} today
user: bob, password: {P}
login: bob / password: {P}
username bob password is "{P}"
(password: {P})
Contraseña: {P}
contraseña = "{P}"
la contraseña es {P}
Passwort: {P}
Das Passwort ist {P}
Kennwort = {P}
mot de passe : {P}
le mot de passe est {P}
senha: {P}
SENHA={P}
wachtwoord: {P}
lösenord: {P}
hasło: {P}
heslo: {P}
пароль: {P}
Пароль: {P}
密码: {P}
密码：{P}
パスワード: {P}
비밀번호: {P}
HEROKU_API_KEY={U}
HEROKU_API_KEY: {U}
heroku_api_key = "{U}"
export HEROKU_API_KEY='{U}'
"api_key": "{U}"
apiKey: '{U}'
client_secret={U}
SNYK_TOKEN={U}
SNYK_TOKEN: {U}
CODECOV_TOKEN="{U}"
POSTMARK_API_TOKEN={U}
"token": "{U}"
X-Auth-Token: {U}
access_token: {U}
RAILWAY_TOKEN={U}
SCW_SECRET_KEY={U}
//registry.npmjs.org/:_authToken={U}
//npm.corp/:_authToken={K40}
_auth={BASIC}
//npm.corp/:_password="{B}"
GITEA_TOKEN={H40}
GITEA_TOKEN: {H40}
export GITEA_TOKEN="{H40}"
gitea_token = '{H40}'
"access_token": "{H40}"
SONAR_TOKEN={H40}
SONARQUBE_TOKEN: {H40}
WANDB_API_KEY={H40}
DD_API_KEY={H32}
DD_APP_KEY={H40}
DD-API-KEY: {H32}
DATADOG_APPLICATION_KEY={H40}
CLOUDFLARE_API_KEY={H32}abcde
CLOUDFLARE_API_TOKEN={K40}
SENTRY_AUTH_TOKEN={H64}
DISCORD_CLIENT_SECRET={K}
FACEBOOK_APP_SECRET={H32}
TWILIO_AUTH_TOKEN={H32}
TWITTER_API_SECRET={K40}
ALGOLIA_ADMIN_KEY={H32}
ALGOLIA_API_KEY: "{H32}"
OPENWEATHER_API_KEY={H32}
MAPS_API_KEY={K}
SECRET_KEY={H64}
SECRET_KEY = '{K64}'
DJANGO_SECRET_KEY="{K40}"
SECRET_KEY_BASE={H64}{H64}
JWT_SECRET={K40}
JWT_SECRET="{H64}"
SESSION_SECRET: {H64}
APP_KEY=base64:{B64_44}
RAILS_MASTER_KEY={H32}
ENCRYPTION_KEY={H64}
COOKIE_SECRET={H32}
WEBHOOK_SECRET={H40}
webhook_secret: "{H64}"
AZURE_CLIENT_SECRET={K40}
ELASTIC_CLOUD_KEY={K64}
Ocp-Apim-Subscription-Key: {H32}
subscription-key={H32}
xi-api-key: {H32}
apikey={H64}
api_secret={H40}
consumer_secret = "{K40}"
oauth_token_secret={K40}
refresh_token={K64}
id_token={K64}
private_key={H64}
PRIVATE_KEY=0x{H64}
private key 0x{H64}
private key: {H64}
the private key is 0x{H64}
privkey = "{H64}"
DEPLOYER_PRIVATE_KEY="0x{H64}"
PrivateKey = {B64_44}
PresharedKey = {B64_44}
integration_key={H32}
license_key: {K40}
NEW_RELIC_LICENSE_KEY={H40}
aws_secret_access_key = {K40}
AWS_SECRET_ACCESS_KEY: "{K40}"
secret_access_key={K40}
storage_key="{K64}"
accessToken: "{K40}"
use token {K40} for the api
token {K40}
my api key is {K40}
the api token is {K40}
the api key for the service is: {K40}
//nuget.corp:apikey={K40}
credentials: {K40}
"""

MARKUP = r"""
<password>{P}</password>
<password>{W}</password>
<Password>{P}</Password>
<db:password>{P}</db:password>
<dbPassword type="plain">{P}</dbPassword>
<pwd>{P}</pwd>
<apiKey>{K40}</apiKey>
<token>{K40}</token>
<client-secret>{K40}</client-secret>
<wsse:Password Type="x">{P}</wsse:Password>
<password>
  {P}
</password>
<add key="Password" value="{P}" />
<add key="DbPassword" value="{P}"/>
<add key="ClearTextPassword" value="{P}" />
<property name="password" value="{P}"/>
<property name="connection.password">{P}</property>
<Resource name="jdbc/x" username="bob" password="{P}"/>
<input type="password" name="password" value="{P}">
<key>password</key><string>{P}</string>
<server><id>corp</id><username>bob</username><password>{P}</password></server>
- name: DB_PASSWORD
  value: {P}
- name: DB_PASSWORD
  value: "{P}"
{"name": "DB_PASSWORD", "value": "{P}"}
{"Name":"API_TOKEN","Value":"{K40}"}
db.corp:5432:shop:app:{P}
localhost:5432:*:postgres:{P}
*:*:*:app:{P}
.pgpass: db.corp:6432:shop:app:{P}
.pgpass has db.corp:5499:shop:app:{W}
machine api.corp.net login bob password {P}
machine api.corp.net login bob password {W}
machine github.com⏎login bob⏎password {K40}
machine h⏎  login bob⏎  password {P}
default login bob password {P}
Cookie: session={K40}
Cookie: sessionid={H32}; theme=dark
Cookie: theme=dark; PHPSESSID={H32}
Cookie: JSESSIONID={H32}
Cookie: auth_token={U}
cookie: connect.sid=s%3A{K40}
Set-Cookie: sid={K}; Path=/; HttpOnly
Set-Cookie: sessionid={H32}; HttpOnly; Secure
set-cookie: __Secure-next-auth.session-token={K64}; Path=/
"Cookie": "session={K40}; a=b"
-H 'Cookie: _gitlab_session={H32}'
headers['Cookie'] = 'session={K40}'
Authorization: Basic {BASIC}
Authorization: Token {H40}
Authorization: token {H40}
Authorization: ApiKey {K40}
Authorization: Bearer {K40}
Authorization: Bearer {H64}
Authorization: Bearer {U}
Authorization: bearer {U}
Authorization: SSWS {K40}
Authorization: GenieKey {U}
Authorization: Splunk {U}
Authorization: Bot {K64}
Authorization: Negotiate {K64}{K64}==
Authorization: NTLM {K64}{K64}
Authorization: {K40}
Authorization: AWS4-HMAC-SHA256 Credential=AKIDX/20240101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature={H64}
Authorization: AWS AKIDX:{K}=
Authorization: Digest username="bob", realm="x", nonce="n", uri="/", response="{H32}"
Authorization: OAuth oauth_consumer_key="{K}", oauth_signature="{K}"
Authorization: Hawk id="x", ts="1", nonce="n", mac="{B64_44}"
Authorization: Signature keyId="k",algorithm="rsa-sha256",signature="{K64}{K64}"
Authorization: GoogleLogin auth={K64}
Authorization: Zoho-oauthtoken 1000.{H32}.{H32}
"Authorization": "Token {H40}"
'authorization': 'ApiKey {K40}'
Proxy-Authorization: Basic {BASIC}
headers = {"Authorization": "Basic {BASIC}"}
client-key-data: {PEM}
    client-key-data: {B64_44}{B64_44}
"client-key-data": "{PEM}"
token: {K40}
apiVersion: v1⏎kind: Secret⏎data:⏎  password: {B}
apiVersion: v1⏎kind: Secret⏎metadata:⏎  name: db⏎data:⏎  pg: {B}
apiVersion: v1⏎kind: Secret⏎data:⏎  config: "{B}"⏎  user: Ym9i
kind: Secret⏎stringData:⏎  password: {P}
kind: Secret⏎stringData:⏎  db: "{P}"
data:⏎  DB_PASSWORD: {B}⏎kind: Secret
{"auths": {"registry.corp": {"auth": "{BASIC}"}}}
PuTTY-User-Key-File-3: ssh-ed25519⏎Encryption: none⏎Public-Lines: 2⏎AAAA⏎Private-Lines: 1⏎{B64_44}
Private-Lines: 8⏎{K64}⏎{K64}
5K{B58_49}
K{B58_51}
L{B58_51}
importprivkey 5J{B58_49}
WIF: K{B58_51}
bob:$apr1$abcdefgh${S22}
bob:$2y$10${S53}
$2b$12${S53}
$6$saltsalt${S86}
root:$6$rounds=5000$saltsalt${S86}:19000:0:99999:7:::
$1$saltsalt${S22}
$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQxMjM0${K40}
pbkdf2_sha256$600000$abcdefghijkl${B64_44}
{SSHA}{K}{K}==
Administrator:500:aad3b435b51404eeaad3b435b51404ee:{H32}:::
DefaultEndpointsProtocol=https;AccountName=x;AccountKey={K64}{K}==;EndpointSuffix=core.windows.net
Server=db.corp;Database=shop;User Id=sa;Password={P};
Server=db.corp;Database=shop;User Id=sa;Password={W};Encrypt=true
Server=db;Uid=sa;Pwd={P};
Data Source=db;User ID=sa;Pwd={W}
Driver={ODBC};Server=db;UID=sa;PWD={P}
jdbc:postgresql://db.corp/shop?user=app&password={P}
jdbc:mysql://db/shop?user=app&password={P}&useSSL=false
jdbc:sqlserver://db:1433;user=sa;password={P};encrypt=true
Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={B64_44}
cache.redis.cache.windows.net:6380,password={B64_44},ssl=True
amqp://app:{P}@mq.corp:5672/x
redis://default:{P}@cache.corp:6379
ftp://bob:{P}@ftp.corp.net/x
smtp://bob%40corp.net:{P}@smtp.corp.net:587
ldap://cn=admin:{P}@ldap.corp
mongodb://app:{W}@db.corp.net:27017/shop
CREATE USER app IDENTIFIED BY '{P}';
CREATE USER bob WITH PASSWORD '{P}';
ALTER USER postgres PASSWORD '{P}';
GRANT ALL ON x.* TO 'app'@'%' IDENTIFIED BY '{W}';
SET PASSWORD FOR 'root'@'localhost' = PASSWORD('{P}');
requests.get(u, auth=("bob", "{P}"))
requests.get(u, auth=HTTPBasicAuth('bob', '{P}'))
server.login("bob@corp.net", "{P}")
smtp.login('bob', '{P}')
psk="{P}"
otpauth://totp/corp:bob?secret={B32}&issuer=corp
{"kty":"RSA","n":"abc","e":"AQAB","d":"{K64}"}
{"kty":"oct","k":"{K40}"}
send "{P}\r"  # answers the Password: prompt⏎expect "assword:"⏎send "{P}\r"
-----BEGIN RSA PRIVATE KEY-----⏎{K64}⏎{K64}
---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----⏎Comment: x⏎{K64}⏎{K64}
creds: bob / Tr0ub&{P}
https://x.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={H64}
mnemonic: "orbit velvet candle harbor mint lantern pistol garden clever window hero trumpet"
seed phrase is orbit velvet candle harbor mint lantern pistol garden clever window hero trumpet
"""


def kinds(block: str) -> list[str]:
    lines: list[str] = []
    for line in block.strip("\n").split("\n"):
        if line.startswith((" ", "</password")) or (lines and lines[-1] == "<password>"):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    return [line.replace("⏎", "\n").replace("{{", "{").replace("}}", "}") for line in lines]


MORE = r"""
data:⏎  password: c3VwZXJzZWNyZXQ=
apiVersion: v1⏎data:⏎  db-password: {B}⏎  user: Ym9i
sk.eyJ{K}{K}7a.{K}
PuTTY-User-Key-File-3: ssh-rsa⏎Private-Lines: 14⏎{K}
0x{H64} private key
0x{H64} (hex) is the private key of the faucet
heroku api key is {U}
The token is {H40}
the secret key was {U}
Authorization: Token abcdef12345
Authorization: Bearer abc12345
chpasswd <<< 'bob:{P}'
sudo chpasswd <<< "root:{P}"
runas /user:corp\bob {P}
impacket-psexec dom/bob:{P}@10.0.0.9
impacket-secretsdump 'corp.local/adm:{P}@dc1'
psexec.py dom/bob:{P}@h
winrm -p {P}
winrm -u bob -p {W} enumerate
"""

# where only a password can stand, and the words that people choose
ONLY = r"""
mysql -u root -p{X} shop
sshpass -p {X} ssh h
docker login -u bob -p {X} registry.corp
redis-cli -a {X} ping
ldapsearch -x -D cn=admin -w {X} -b dc=corp
smbclient //nas/share -U u%{X}
7z a -p{X} x.7z dir
htpasswd -b .htpasswd bob {X}
net use \\nas\share /user:bob {X}
echo {X} | sudo -S true
sudo -S <<< '{X}' true
chpasswd <<< 'bob:{X}'
impacket-psexec dom/bob:{X}@h
ConvertTo-SecureString '{X}' -AsPlainText -Force
<password>{X}</password>
pgpass: db.corp:5432:shop:app:{X}
"""
CHOSEN = ["password" + "1", "let" + "mein", "changeme" + "123", "sec" + "ret", "qwe" + "rty", "mon" + "key"]


KINDS = [k for block in (COMMANDS, NAMED, MARKUP, MORE) for k in kinds(block)]


def places(text: str) -> list[str]:
    """The same in a note: alone, in a sentence, in a fence, in a list."""
    return [
        text,
        f"Staging was down again, this helped:\n\n{text}\n\nAsk Ann before the next one.",
        f"```sh\n{text}\n```",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_refused_wherever_it_stands(kind: str) -> None:
    for seed in range(4):
        for text in places(fill(kind, seed)):
            found = redact.find(text)
            assert found, text
            assert redact.find(redact.mask(text, found)) == [], text


@pytest.mark.parametrize("word", CHOSEN)
def test_a_common_word_is_refused_where_only_a_password_can_stand(word: str) -> None:
    for kind in kinds(ONLY):
        for text in places(kind.replace("{X}", word)):
            found = redact.find(text)
            assert found, text
            assert redact.find(redact.mask(text, found)) == [], text


@pytest.mark.parametrize("name", ["<password>", "$X", "${X}", "***", "xxxx", "password", "pass", "PASSWORD", "your-password",
                                  "yourpassword", "my_secret_key", "dbPassword", "MY_PASS", "changeme", "{{ pw }}"])  # fmt: skip
def test_a_placeholder_passes_where_only_a_password_can_stand(name: str) -> None:
    for kind in kinds(ONLY):
        assert redact.find(kind.replace("{X}", name)) == [], kind


@pytest.mark.parametrize("form", ["password = {X}", "password={X}", "password: {X}", 'password = "{X}"', "PGPASSWORD={X} psql"])
def test_a_word_with_digits_is_a_password_by_its_name(form: str) -> None:
    for word in ("password" + "1", "letmein" + "1", "changeme" + "123", "admin" + "123", "secret" + "12"):
        assert redact.find(form.replace("{X}", word)), word
    for word in ("password", "changeme", "letmein", "secret"):
        assert redact.find(form.replace("{X}", word)) == [], word


INNOCENT = r"""
7z x -pretty
mysql -proxy
mysql -print-defaults
runas /user:Administrator cmd
runas /user:corp\adm notepad2.exe
impacket-psexec dom/bob@h
data:⏎  mode: cHJvZHVjdGlvbg==
data:⏎  password: cGFzc3dvcmQ=
token hash is {H40}
the commit is {H40}
0x{H64} is the hash of the block
Authorization: Token auth of v2
mysql -u root -p shop
mysql -u root -p
mysql -u root -p < dump.sql
mysql -uroot -p$MYSQL_PASS shop
mysql -u root -p"$PASS" shop
mysql -u root -p${PASS} shop
mysql -u root -p<password> shop
mysql -u root -ppassword
mysql -u root -pMY_PASSWORD
mysql -u root -pyourpassword
mysql -h db -P 3306 -u root -p shop
mysql --password=$PASS
mysqldump -u backup -p --all-databases
docker run -p 8080:80 nginx
docker run -d -p 127.0.0.1:5432:5432 postgres:16
docker login -u bob --password-stdin
docker login -u bob -p $TOKEN registry.corp
docker login -u bob -p ${{ secrets.REGISTRY_PASSWORD }}
docker login -u <user> -p <password>
docker compose -p myproject up
echo $TOKEN | docker login -u bob --password-stdin
echo "$PASSWORD" | sudo -S apt update
echo hello | sudo tee /etc/motd
echo "deb http://x y" | sudo tee -a /etc/apt/sources.list
mkdir -p src/app/password_reset
ssh -p 2222 root@10.0.0.5
scp -P 2222 a b:
cp -p a1b2c3 d4e5f6
sshpass -p "$SSHPASS" ssh root@h
sshpass -f file ssh root@h
redis-cli -p 6379 ping
redis-cli -a $REDIS_PASSWORD ping
redis-cli -h h -a "${PASS}"
ldapsearch -x -W -D cn=admin
ldapsearch -x -w $PW -b dc=corp
7z x archive.7z -oout
7z a archive.7z dir
zip -r out.zip dir
tar -xzpf a1.tar.gz
unzip -P "$ZIP_PW" x.zip
openssl req -newkey rsa:2048 -nodes -keyout k.pem
openssl rsa -passin env:PASS -in k
gpg --passphrase-file pw.txt -c x
htpasswd -c .htpasswd bob
net use Z: \\nas\share
net user
smbclient -U bob //nas/share
smbclient -U bob%$PASS //nas/x
psql -U app -h db -p 5432
ps -p 12345
lsof -p 12345
kill -9 12345
curl -u "$USER:$PASS" https://x.y
curl -u user:password https://x.y
curl -u <user>:<password> https://x.y
curl -H "Authorization: Bearer $TOKEN" https://x.y
wget --password=$PASS https://x.y
ConvertTo-SecureString $env:PASS -AsPlainText -Force
ConvertTo-SecureString "<password>" -AsPlainText
az login --use-device-code
kubectl create secret generic db --from-literal=password=$PASS
kubectl create secret generic db --from-file=pw.txt
kubectl get secret db -o yaml
aws configure set region eu-west-1
aws configure set aws_secret_access_key $SECRET
gh auth login --with-token < token.txt
npm config set registry https://registry.npmjs.org
vault login -method=oidc
cargo login
git config user.email bob@corp.net
ansible-playbook -e "db_password={{ vault_db_password }}"
ansible-playbook --ask-become-pass site.yml
xfreerdp /u:bob /p:$PASS /v:h
sqlplus / as sysdba
sqlplus scott/tiger@orcl
rman target / catalog x
make -j4 -p test1
git log -p -U3 abc1234
grep -pattern1 file2
password: str
password: str = None
password = getpass()
password = get_password(user1)
password = request.form["password1"]
password = os.environ["DB_PASSWORD_1"]
password=config.db_pass1
password: ${DB_PASSWORD}
password: "{{ db_password }}"
password: <password>
password: xxxxxxxx
password: ********
password = 'changeme'
password = new_password2
password: required, min:8
the password is hashed with bcrypt2
the password is 12 characters long
the password is sha256-hashed
the password is utf-8 encoded
the password for the form is optional
set the password to something long
reset the password to continue
password reset link v2
token = get_token()
token: ${{ secrets.GITHUB_TOKEN }}
token = next(tokens)
token: 3f786850e387550fdab836ed7e6dc881de23001b
use token authentication from v2
the token is valid for 3600 seconds
use token based auth in ServiceA2
next_page_token = response.next_page_token
HEROKU_API_KEY=
HEROKU_API_KEY=$HEROKU_API_KEY
HEROKU_API_KEY=<your-api-key>
HEROKU_API_KEY=your-api-key-here
GITEA_TOKEN=${GITEA_TOKEN}
api_key = settings.API_KEY
api_key: "YOUR_API_KEY"
token_id: {U}
secret_name: {U}
key_id={U}
tenant id {U}
correlation {U}
request-id: {U}
commit {H40}
sha256:{H64}
checksum = "{H64}"
image@sha256:{H64}
"integrity": "sha256-{B64_44}"
"sha": "{H40}"
etag: "{H32}"
md5 {H32}
cache_key = {H32}
idempotency-key: {U}
session {U} ended
<password>$PASS</password>
<password>${env.PASS}</password>
<password>password</password>
<password></password>
<token>string</token>
<h1>password reset</h1>
<label for="password">Password</label>
<input type="password" name="password" value="">
<property name="password" value="${db.password}"/>
- name: DB_PASSWORD⏎  valueFrom: secretKeyRef
- name: DB_PASSWORD⏎  value: $(DB_PASSWORD)
{"name": "password", "value": "string"}
Cookie: the header that browsers send
Cookie: name=value
Cookie: theme=dark; lang=en
Set-Cookie: sessionid=<id>; HttpOnly
set-cookie: foo=bar; Path=/
we set a cookie = None there
Authorization: Bearer <token>
Authorization: Basic <credentials>
Authorization: Token ${TOKEN}
Authorization: the header names a scheme and credentials
headers["Authorization"] = f"Bearer {token}"
headers["Authorization"] = "Basic " + base64.b64encode(raw)
machine HOST login USER password PASS
machine api.corp.net login bob password <password>
app.py:1234:error:name:unused
localhost:8080:80:tcp:udp
12:30:45:app:user
jdbc:postgresql://localhost:5432/shop?user=app
Server=db;Database=shop;Trusted_Connection=True;
Server=db;User Id=sa;Password=<password>;
Server=db;User Id=sa;Password={{pw}};
Endpoint=sb://x.servicebus.windows.net/
apiVersion: v1⏎kind: ConfigMap⏎data:⏎  mode: production
kind: Secret⏎data:⏎  password: <base64>
kind: Secret⏎stringData:⏎  password: $(PASS)
IDENTIFIED BY 'password'
ALTER USER postgres PASSWORD NULL
the rows are identified by their names
auth=("user", "pass")
requests.get(u, auth=(user, password))
smtp.login(user, password)
PuTTY-User-Key-File-3: what the file opens with
Private-Lines: 8
private key {H40}
the private key is in ~/.ssh/id_ed25519
the seed phrase has twelve words
a catch phrase is what we need here and it must be short and clear to all of them
client-key-data: <base64>
$2b$12$ is how such a hash opens
$6$salt is crypt
5KJvsngHeMpm
bumped sk-learn to 1.4.2
see fc-cache and aio_read
live_reload and test_utils_for_the_new_parser_of_today
rnd_state = np.random.RandomState(42)
pat-na1-region
ion_channel_simulation_of_the_membrane_in_two_parts
API-KEY-HEADER
"""


@pytest.mark.parametrize("text", kinds(INNOCENT))
def test_what_stands_where_a_secret_might_is_let_through(text: str) -> None:
    for seed in range(3):
        assert redact.find(fill(text, seed)) == [], fill(text, seed)


# one unit of what each new pattern opens with, and of what it repeats
BAITS = [
    "mysql ", "mysql -p", "mysql -u a -p'", "docker login -p ", "sshpass -p", "7z -p", "curl -u a:", "net use /user:a ",
    "sqlplus a/", "aws configure set secret ", "kubectl secret --from-literal=a=", "echo a | ", "echo '", "printf \"%s",
    "echo a | sudo ", "sudo <<< ", "sudo <<<", "convertto-securestring -force ", "networkcredential('a', '", "password send \"",
    "password('", " --a-pass ", "env A_PASS ", "<password>", "<password ", "<a:password a", "<a.password.a ", "name=password value=",
    "name: a_password\n", "key='password' ", "<key>password</key> ", "client-key-data: A", "private-lines: 1 ", "\"kty\" \"d\":\"",
    "a:5432:a:a:", ":5432:", "machine a login a password ", "default login a ", "password \n", "identified by '", "psk='",
    "server=a;", "server=a;b=c;password=", "otpauth://secret=", "otpauth://", "private key ", "privatekey 0", "phrase abc ",
    "mnemonic ", "abcd ", "authorization: a ", "authorization: ", "cookie: a=", "cookie: a=b;", "set-cookie: session=A1",
    "kind secret\ndata:\n", "kind: secret\ndata:\n a: b\n", " a: YWJj\n", "password for a b c ", "password of ", "token for a at b ",
    "keykeykey", "apikeytoken=", "contraseña: ", "密码:", "парол", "creds a/", "login a:", "00D" + "a" * 14 + "!", "$6$a$", "$argon2id$m=1,t=1,p=1$",
    ":1:" + "a" * 32 + ":", "a" * 32 + "-", "a" * 32 + ".", "5K" + "a" * 30, "eyJ", "_secret_", "pi_" + "a" * 24 + "_secret_", "<private>", "AKIA",
    "runas /user:a ", "impacket-psexec a/a:", "data:\n password: ", "0x" + "a" * 64 + " ", "sudo chpasswd <<< a:", "mysql -pyour_",
]  # fmt: skip


RUNS = (" ", "a", "A1", "\n", '"', "-", "a ", ".", "/", ":", "=", "a.", "A_", "<")


def seconds(unit: str, run: str, size: int) -> float:
    text = unit + (run * size)[:size] if run else (unit * (size // len(unit) + 1))[:size]
    best = 9.0
    for _ in range(2):
        began = time.process_time()
        redact.find(text)
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.parametrize("unit", BAITS)
def test_patterns_are_read_in_time_that_grows_with_the_text(unit: str) -> None:
    for run in ("", *RUNS):
        seconds(unit, run, 500)
        # eight times the text: linear 8, quadratic 64; the floor keeps noise of the clock out
        assert seconds(unit, run, 32_000) < 30 * max(seconds(unit, run, 4_000), 0.002), run
