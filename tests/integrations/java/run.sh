#!/usr/bin/env bash
# The Java package with real servers: prints TAP. It needs the cluster of libpq's environment variables, with PGHOST as the
# directory of its socket, and makes a database there, which is gone afterwards. IDEM_PORTABLE: on the portable edition.
#
#   run.sh [maven|vectors|functions|jetty|tomcat9|tomcat10|spring ...]    all, or these; maven and the vectors need no cluster
#
# IDEM_REQUESTS: how many keys the storm has (1000). tomcat9 goes through pgbouncer, which needs a cluster of scripts/cluster.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
source scripts/lib.sh

common_packages="libpostgresql-jdbc-java libhikaricp-java libslf4j-java libjunixsocket-java libjunixsocket-jni"
declare -A packages=(
    [maven]="maven maven-debian-helper libmaven-antrun-plugin-java libbuild-helper-maven-plugin-java libmaven-source-plugin-java libmaven-javadoc-plugin-java"
    [vectors]=""
    [functions]=""
    [jetty]="libjetty9-java curl"
    [tomcat9]=libtomcat9-java
    [tomcat10]="libtomcat10-embed-java libjakarta-annotation-api-java"
    [spring]="libjetty9-java libspring-web-servlet-java libspring-jdbc-java libspring-transaction-java"
)

tests=tests/integrations/java
build=$PWD/build/integrations/java
requests=${IDEM_REQUESTS:-1000}
java=/usr/share/java
common=$java/postgresql.jar:$java/junixsocket-common.jar:$java/HikariCP.jar:$java/slf4j-api.jar:$java/slf4j-nop.jar
jetty=$java/servlet-api.jar:$(printf "$java/jetty9-%s.jar:" server servlet http io util security)
tomcat9=$(printf "$java/tomcat9-%s.jar:" catalina coyote juli util util-scan api jni annotations-api jaspic-api)$java/servlet-api.jar
tomcat10=$java/tomcat10-embed-core.jar:$java/jakarta-annotation-api.jar
spring=$(printf "$java/spring3-%s.jar:" core beans context expression aop web web.servlet jdbc transaction)$java/commons-logging.jar
flags=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -Djava.library.path=/usr/lib/x86_64-linux-gnu/jni)

database=integrations_java_$$
psql=("$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --output=/dev/null)
example=${database}_example # a database and a role
failed=0
count=0
pooler=

# shellcheck disable=SC2317 # called by at_exit
finish() {
    [ -z "$pooler" ] || scripts/pooler.sh stop "$pooler" || true
    "${psql[@]}" --dbname=postgres --command="SET client_min_messages = warning" --command="DROP DATABASE IF EXISTS $database WITH (FORCE)" \
        --command="DROP DATABASE IF EXISTS $example WITH (FORCE)" --command="DROP ROLE IF EXISTS $example" || true
}
at_exit finish

make_database() {
    "${psql[@]}" --dbname=postgres --command="SET client_min_messages = warning" --command="DROP DATABASE IF EXISTS $database WITH (FORCE)" --command="CREATE DATABASE $database"
    install_idem "$database"
    "${psql[@]}" --dbname="$database" --file=$tests/database.sql
}

# url SOCKET_DIRECTORY PORT
url() {
    echo "jdbc:postgresql://localhost/$database?user=$PGUSER&sslmode=disable&socketFactory=org.newsclub.net.unix.AFUNIXSocketFactory\$FactoryArg&socketFactoryArg=$1/.s.PGSQL.$2"
}

# compile DIRECTORY CLASSPATH SOURCE ...: these, and the tests themselves
compile() {
    mkdir -p "$build/$1"
    javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -Xlint:all,-processing,-serial,-classfile,-try,-path -Werror -cp "$jar:$common:$2" -d "$build/$1" \
        $tests/{Tap,Http,Database,ServerProcess,LostReplies,Cases,Storm,Functions,Flows}.java "${@:3}"
}

# run NAME COMMAND ...: the command prints TAP, which becomes one test, with its lines as a subtest.
run() {
    local result=ok
    echo "# Subtest: $1"
    "${@:2}" | sed 's/^/    /' || result='not ok'
    [ "$result" = ok ] || failed=1
    echo "$result $((++count)) - $1"
}

# The README begins with what is between the lines "// README" of the example.
# shellcheck disable=SC2317,SC2016 # called by run; the backquotes are those of the README
check_readme() {
    local shown copied result=ok
    shown=$(sed -n '/^```java$/,/^```$/{//!p;/^```$/q}' integrations/java/README.md)
    copied=$(sed -n '/\/\/ README$/,/\/\/ README$/{//!s/^        //p}' integrations/java/example/Main.java)
    [ -n "$shown" ] && [ "$shown" = "$copied" ] || result='not ok'
    printf '%s\n' "$result 1 - the README begins with the example" 1..1
    [ "$result" = ok ]
}

# shellcheck disable=SC2317 # called by run
check_contents() {
    local result=ok links=ok file
    for file in "$jar" "${jar%.jar}-sources.jar"; do
        jar --list --file "$file" | grep --quiet --line-regexp META-INF/LICENSE || result='not ok'
    done
    echo "$result 1 - the jars have a license"
    if grep --extended-regexp --quiet '\]\((\.|[^)#:]*\.md)' integrations/java/README.md; then links='not ok'; fi
    printf '%s\n' "$links 2 - no link of the README is dead outside of the repository" 1..2
    [ "$result $links" = 'ok ok' ]
}

# compile_readme CLASS CLASSPATH PATTERN ...: the README's blocks of Java that have these in them compile where CLASS.java has the word of
# each behind a "//". What they use of an application is declared there.
# shellcheck disable=SC2317 # called by run
compile_readme() {
    local class=$1 classpath=$2 result=ok
    mkdir -p "$build/readme"
    python3 - "$tests/$class.java" integrations/java/README.md "${@:3}" >"$build/readme/$class.java" <<'PY' || result='not ok'
import re, sys
text = open(sys.argv[1]).read()
blocks = re.findall(r"^```java\n(.*?)^```$", open(sys.argv[2]).read(), re.M | re.S)
for word in sys.argv[3:]:
    found = [block for block in blocks if word in block]
    assert len(found) == 1 and text.count(f"// {word}\n") == 1, f"{word}: {len(found)} blocks"
    text = text.replace(f"// {word}\n", found[0])
print(text)
PY
    javac -Xlint:all,-processing,-serial,-classfile,-try,-path -cp "$jar:$common:$classpath" -d "$build/readme" "$build/readme/$class.java" 2>&1 | sed 's/^/# /' ||
        result='not ok'
    printf '%s\n' "$result 1 - the README's lines in $class.java compile" 1..1
    [ "$result" = ok ]
}

# The tests of package-private classes are of their package.
# shellcheck disable=SC2317 # called by run
vectors() { java "${flags[@]}" -cp "$jar:$build/vectors:$java/servlet-api.jar" "idem.postgres.$1" "tests/vectors/$2"; }

# What is the same in the jars of both builds: the names of the files, and what the manifest says of the package.
# shellcheck disable=SC2317 # called by run
contents() {
    jar --list --file "$1" | grep -v -e '/$' -e '^META-INF/maven/' | LC_ALL=C sort
    local unpacked
    unpacked=$(mktemp -d)
    (cd "$unpacked" && jar --extract --file "$1" META-INF/MANIFEST.MF)
    grep -E '^(Automatic-Module-Name|Implementation-)' "$unpacked/META-INF/MANIFEST.MF" | tr -d '\r' | LC_ALL=C sort || true
    rm -r "$unpacked"
}

# pom.xml, with Debian's repository of Maven. A release of Debian has one version of each plugin.
# shellcheck disable=SC2317 # called by run
build_with_maven() {
    local target=integrations/java/target name artifact version files result=ok
    name=$(basename "$jar" .jar)
    while read -r artifact version; do
        [ -n "$(find /usr/share/maven-repo -path "*/$artifact/$version")" ] && continue
        printf '%s\n' "ok 1 - mvn package # SKIP Debian's repository lacks $artifact $version" 1..1
        return
    done < <(tr -d '\n' <integrations/java/pom.xml | sed 's/<modelVersion>.*<inceptionYear>//' |
        grep -oP '<artifactId>[^<]*</artifactId>\s*<version>[^<]*' | sed 's/<artifactId>\([^<]*\).*>/\1 /')
    rm -rf "$target"
    mvn --quiet --batch-mode -Dstyle.color=never --settings /etc/maven/settings-debian.xml --file integrations/java/pom.xml package 2>&1 | sed 's/^/# /' || result='not ok'
    for files in "$name" "$name-sources"; do
        diff <(contents "$(dirname "$jar")/$files.jar") <(contents "$PWD/$target/$files.jar") | sed 's/^/# /' || result='not ok'
    done
    [ -s "$target/$name-javadoc.jar" ] || result='not ok'
    printf '%s\n' "$result 1 - mvn package makes the jars of build.sh, and that of the documentation" 1..1
    rm -rf "$target"
    [ "$result" = ok ]
}

# serve NAME CLASSPATH MAIN DATABASE_URL TESTS ARGUMENT ...: the tests, which start MAIN as a process of their own
serve() {
    run "$1: ${*:5}" java "${flags[@]}" -Dserver.class="$3" -Dserver.classpath="$jar:$build/$1:$common:$2" -Dserver.log="$build/$1.log" \
        -Dserver.database.url="$4" -Ddatabase.url="$(url "$PGHOST" "$PGPORT")" -cp "$jar:$build/$1:$common" "${@:5}"
}

# serve_all NAME CLASSPATH MAIN DATABASE_URL
serve_all() {
    rm -f "$build/$1.log"
    make_database
    serve "$@" Cases
    serve "$@" Storm "$requests"
}

# The portable edition grants nothing to roles, so its example is run as the superuser.
run_example() {
    local user=$example
    [ -z "${IDEM_PORTABLE:-}" ] || user=$PGUSER
    JDK_JAVA_OPTIONS="${flags[*]}" run example $tests/example.sh "$example" "$(PGUSER=$user database=$example url "$PGHOST" "$PGPORT")" \
        $java/junixsocket-common.jar "$build/example.log"
}

# The sources for jakarta.servlet, as build.sh makes them.
make_jakarta_sources() {
    mkdir -p "$build/jakarta"
    for source in $tests/App.java $tests/Pool.java $tests/TomcatServer.java; do
        sed -e 's/javax\.servlet/jakarta.servlet/g' -e 's/idem\.postgres\.servlet/idem.postgres.jakarta/g' "$source" >"$build/jakarta/${source##*/}"
    done
}

jar=$(scripts/integrations.sh java)
app=("$tests"/{App,Pool}.java)

[ $# -gt 0 ] || set -- maven vectors functions jetty tomcat9 tomcat10 spring
for framework; do
    # shellcheck disable=SC2086 # words
    scripts/deps.sh $common_packages ${packages[$framework]-} >&2 || {
        echo "ok $((++count)) - $framework # SKIP its packages cannot be installed here"
        continue
    }
    case $framework in
        maven) run "mvn package" build_with_maven ;;
        vectors)
            mkdir -p "$build/vectors"
            javac -Xlint:all,-processing,-serial,-classfile,-try,-path -Werror -cp "$jar:$java/servlet-api.jar" -d "$build/vectors" \
                $tests/vectors/*.java
            run lease.json vectors LeaseVectors lease.json
            run http_flow.json vectors HttpFlowVectors http_flow.json
            ;;
        functions)
            compile functions ""
            make_database
            run README check_readme
            run contents check_contents
            for class in Functions Flows; do
                run $class java "${flags[@]}" -Ddatabase.url="$(url "$PGHOST" "$PGPORT")" -cp "$jar:$build/functions:$common" $class
            done
            ;;
        jetty)
            compile jetty "$jetty" "${app[@]}" $tests/JettyServer.java
            serve_all jetty "$jetty" JettyServer "$(url "$PGHOST" "$PGPORT")"
            run flows compile_readme ReadmeFlows "$jetty" context.lease JdbcIdem
            run_example
            ;;
        tomcat9)
            compile tomcat9 "$tomcat9" "${app[@]}" $tests/TomcatServer.java
            pooler=$(basename "$PGHOST")
            scripts/pooler.sh start "$pooler" default_pool_size=20
            serve_all tomcat9 "$tomcat9" TomcatServer "$(url "$PGHOST/pooler" 6432)&prepareThreshold=0"
            ;;
        tomcat10)
            make_jakarta_sources
            compile tomcat10 "$tomcat10" "$build"/jakarta/*.java
            serve_all tomcat10 "$tomcat10" TomcatServer "$(url "$PGHOST" "$PGPORT")"
            ;;
        spring)
            compile spring "$jetty:$spring" $tests/{Pool,SpringServer,SpringCases}.java
            run beans compile_readme ReadmeBeans "$jetty:$spring" 'IdemFilter idem(DataSource pool) {' IdempotentRoutes IdemDataSource
            rm -f "$build/spring.log"
            make_database
            serve spring "$jetty:$spring" SpringServer "$(url "$PGHOST" "$PGPORT")" SpringCases
            ;;
        *)
            echo "run.sh: no tests for \"$framework\"" >&2
            exit 2
            ;;
    esac
done
echo "1..$count"
exit $failed
