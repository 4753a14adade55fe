#!/usr/bin/env bash
# Starts the reference app of a framework for Python, Java, Go, Ruby or PHP in the place of this shell.
#
#   start.sh fastapi|flask|django|jetty|tomcat9|tomcat10|spring|go|rack|php
#   start.sh --install NAME    what it needs, and its classes; 69: its packages cannot be installed here
set -euo pipefail
apps=$(cd "$(dirname "$0")" && pwd)
cd "$apps/../../.."

java=/usr/share/java
jetty=$java/servlet-api.jar:$(printf "$java/jetty9-%s.jar:" server servlet http io util security)
tomcat9=$(printf "$java/tomcat9-%s.jar:" catalina coyote juli util util-scan api jni annotations-api jaspic-api)$java/servlet-api.jar
common=$java/postgresql.jar:$java/junixsocket-common.jar:$java/HikariCP.jar:$java/slf4j-api.jar:$java/slf4j-nop.jar:$java/gson.jar
spring=$(printf "$java/spring3-%s.jar:" core beans context expression aop web web.servlet jdbc transaction)$java/commons-logging.jar

# Sets `packages`, and for Java `main` and `classpath`.
describe() {
    packages=() main=
    case $1 in
        fastapi) packages=(python3-fastapi python3-uvicorn) ;;
        flask) packages=(python3-flask) ;;
        django) packages=(python3-django python3-werkzeug) ;;
        jetty) main=JettyApp classpath=$jetty packages=(libjetty9-java) ;;
        tomcat9) main=TomcatApp classpath=$tomcat9 packages=(libtomcat9-java) ;;
        tomcat10) main=TomcatApp classpath=$java/tomcat10-embed-core.jar:$java/jakarta-annotation-api.jar packages=(libtomcat10-embed-java libjakarta-annotation-api-java) ;;
        spring) main=SpringApp classpath=$jetty:$spring packages=(libjetty9-java libspring-web-servlet-java libspring-jdbc-java libspring-transaction-java) ;;
        go) packages=(golang-go golang-github-lib-pq-dev) && return ;;
        rack) packages=(puma ruby-rack ruby-pg ruby-connection-pool) && return ;;
        php) packages=(php-cli php-pgsql php-nyholm-psr7 procps) && return ;;
        *) return 2 ;;
    esac
    if [ -n "$main" ]; then
        packages+=(libpostgresql-jdbc-java libhikaricp-java libslf4j-java libjunixsocket-java libjunixsocket-jni libgoogle-gson-java)
        classes=$PWD/build/conformance/$1
        classpath=$classes:$common:$classpath
    else
        packages+=(python3-psycopg python3-psycopg-pool python3-psycopg2)
    fi
}

# The sources for jakarta.servlet are made of those for javax.servlet, as the package's are.
compile() {
    local jar
    jar=$(scripts/integrations.sh java | tail -n 1)
    rm -rf "$classes"
    mkdir -p "$classes/sources"
    cp "$apps/Reference.java" "$apps/$main.java" "$classes/sources"
    if [ "$1" = tomcat10 ]; then
        sed -i -e 's/javax\.servlet/jakarta.servlet/g' -e 's/idem\.postgres\.servlet/idem.postgres.jakarta/g' "$classes"/sources/*.java
    fi
    (cd "$classes" && jar --extract --file "$jar")
    javac -J-XX:TieredStopAtLevel=1 -Xlint:all,-processing,-serial,-classfile,-try,-path -Werror -cp "$classpath" -d "$classes" "$classes"/sources/*.java
}

# With Debian's driver, which is no module.
compile_go() {
    local module home=$PWD/build/conformance/go
    module=$(scripts/integrations.sh go | tail -n 1)
    rm -rf "$home"
    mkdir -p "$home/src/example.org" && cp -R "$module" "$home/src/example.org/idem"
    GO111MODULE=off GOPATH=$home:/usr/share/gocode GOCACHE=$PWD/build/integrations/go-cache go build -o "$home/app" "$apps/reference.go"
}

if [ "$1" = --install ]; then
    describe "$2"
    scripts/deps.sh "${packages[@]}" || exit 69
    if [ "$2" = go ]; then compile_go; fi
    [ -z "$main" ] || compile "$2"
    exit
fi
describe "$1"
case $1 in
    go) exec build/conformance/go/app ;;
    rack) exec ruby "$apps/reference.rb" ;;
    php) exec "$apps/reference.php.sh" ;;
esac
[ -n "$main" ] || exec env PYTHONPATH="$PWD/integrations/python/src" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$apps/$1_app.py"
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -Djava.library.path=/usr/lib/x86_64-linux-gnu/jni -cp "$classpath" "$main"
