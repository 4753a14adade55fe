#!/bin/sh
# Installs PostgreSQL 18 with idem and its command from the packages in /packages, into an image of a Debian that has that server.
set -eu
export DEBIAN_FRONTEND=noninteractive
# The entrypoint makes the cluster.
mkdir -p /etc/postgresql-common
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
apt-get update
apt-get install --yes --no-install-recommends postgresql-18 /packages/postgresql-18-idem_*.deb /packages/idem-tools_*.deb
rm -rf /var/lib/apt/lists/* /packages
install --directory --owner=postgres --group=postgres --mode=0700 "$(dirname "$PGDATA")"
