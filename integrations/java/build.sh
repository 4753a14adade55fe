#!/usr/bin/env bash
# Builds build/integrations/java/idem-postgres-VERSION.jar as pom.xml does, without Maven. Version and release of Java are those of
# pom.xml. The classes for jakarta.servlet are made of the same sources.
#
# Beside it is the jar of its sources. Both have the licence in META-INF.
#
# SERVLET_API and JAKARTA_SERVLET_API name the jars of the API, and SPRING those of Spring MVC; without them those of Debian's
# libservlet-api-java, libjakarta-servlet-api-java and libspring-web-servlet-java are taken. The last line is the jar's path.
set -euo pipefail
cd "$(dirname "$0")"

of_pom() { sed -n "s|^ *<$1>\(.*\)</$1>\$|\1|p" pom.xml | head -n 1; }

version=$(of_pom version)
build=$(cd ../.. && pwd)/build/integrations/java
jar=$build/idem-postgres-$version.jar
javax=${SERVLET_API:-/usr/share/java/servlet-api.jar}
jakarta=${JAKARTA_SERVLET_API:-/usr/share/java/jakarta-servlet-api.jar}
spring=${SPRING:-$(printf '/usr/share/java/spring3-%s.jar:' core beans context web web.servlet)}

rm -rf "$build/classes" "$build/generated"
mkdir -p "$build/classes/idem/postgres/sql" "$build/generated/idem/postgres/jakarta"
make --silent -C ../.. portable
cp ../../build/idem--portable.sql ../../build/idem--portable-uninstall.sql "$build/classes/idem/postgres/sql"
for source in src/idem/postgres/servlet/*.java; do
    sed -e 's/^package idem\.postgres\.servlet;/package idem.postgres.jakarta;/' -e 's/javax\.servlet/jakarta.servlet/g' \
        "$source" >"$build/generated/idem/postgres/jakarta/${source##*/}"
done
javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC --release "$(of_pom maven.compiler.release)" -Xlint:all,-classfile,-try,-path -Werror \
    -cp "$javax:$jakarta:$spring" -d "$build/classes" \
    src/idem/postgres/{.,servlet,spring}/*.java "$build"/generated/idem/postgres/jakarta/*.java
printf '%s\n' "Automatic-Module-Name: idem.postgres" "Implementation-Title: idem-postgres" "Implementation-Version: $version" \
    >"$build/manifest"
mkdir -p "$build/classes/META-INF"
cp ../../LICENSE "$build/classes/META-INF/LICENSE"
jar --create --file "$jar" --manifest "$build/manifest" -C "$build/classes" .
jar --create --file "${jar%.jar}-sources.jar" -C src . -C "$build/generated" . -C "$build/classes" META-INF/LICENSE -C "$build/classes" idem/postgres/sql
echo "$jar"
