# idem: PGXS builds and installs the extension; scripts/ do everything else. `make help` lists the targets.

PG_CONFIG ?= pg_config
export PG_CONFIG

EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/idem.control)

# The SQL in the order of the installation. Most files are of both editions; those that are below sql/portable alone are of the portable edition.
PORTABLE_FILES = $(addsuffix .sql,$(addprefix sql/, \
    keys/states upgrade storage/definitions storage/high_water storage/distribution rings/rings scopes/scopes statistics/statistics ids/ids \
    keys/tables keys/types keys/fingerprint keys/keys keys/execute keys/counters locks/locks tokens/tokens \
    $(addprefix rows/, target row_object unique_key row_statement compare_and_set version_guard optimistic conditional_update conditional_adjust \
                       row_lock pessimistic insert_once new_key unique_insert equal_hash guarded_insert rows) \
    $(addprefix machines/, machine_definition machine state_drawing moved_rows transition_log state_guard state_column machine_attach \
                           machine_define transition machines) \
    http/http outbox/inbox outbox/outbox requests/requests requests/webhooks requests/rates \
    operations/sweep operations/guards operations/replication operations/in_flight operations/version operations/health operations/citus operations/privileges))
SQL_FILES := $(wildcard $(PORTABLE_FILES))

PROJECT_TARGETS := deps demo checkout portable integrations check check-all check-rest check-portable check-citus check-long matrix check-asserts check-sanitize fuzz check-valgrind chaos chaos-breaks bench psql down install-client install-command \
                   lint lint-tidy lint-english dist check-dist deb check-deb reproduce-deb image-volume check-images plots docs-site dashboard release-check help

ifneq (,$(filter $(PROJECT_TARGETS),$(MAKECMDGOALS)))
# These start on a machine that has no PostgreSQL yet, and PGXS has a `check` of its own: leave PGXS out.
.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)

deps:        ## install the Debian packages that are missing
	@scripts/deps.sh --examples
demo:        ## payments, stock, orders, forms, a cron job: without idem and with it, on a throw-away cluster
	@scripts/demo.sh
checkout:    ## a shop with eight ways to make each order once, and one that does not, on a throw-away cluster; Ctrl-C stops it
	@scripts/checkout.sh
portable:    ## make build/idem--portable.sql, the edition for servers where no C library can be loaded
	@mkdir -p build/dbdev
	@set -e; make_file() { "$$@" > $$out.$$$$ && mv $$out.$$$$ $$out || { rm -f $$out.$$$$; return 1; }; }; \
	for script in install: uninstall:-uninstall tle:-tle; do \
		out=build/idem--portable$${script#*:}.sql; \
		make_file scripts/portable.py --$${script%:*} $(EXTVERSION) $(PORTABLE_FILES); \
	done; \
	out=build/dbdev/idem--$(EXTVERSION).sql; make_file scripts/portable.py --extension $(EXTVERSION) $(PORTABLE_FILES); \
	out=build/dbdev/idem.control; make_file sed '/^module_pathname/d' extension/idem.control
integrations: ## build the packages for Node.js, Python, Java and Go, below build/integrations
	@scripts/integrations.sh
check:       ## build, install and test what the guarantees rest on; the last line says what passed and failed
	@scripts/check.sh quick
check-all:   ## the same and every other test that takes minutes
	@scripts/check.sh all
check-rest:  ## of check-all, what is not in check
	@scripts/check.sh rest
check-portable: ## the suites of the portable edition
	@scripts/check.sh portable
check-citus: ## the portable edition on a coordinator and three workers; CITUS=DIR, a source tree of Citus, which is built
	@CITUS="$(CITUS)" scripts/citus.sh
check-long:  ## what takes hours: all ORMs, chaos, faults, cut points, the matrix
	@scripts/check.sh long
matrix:      ## make check-all on PostgreSQL 15, 17 and 18, each in a Debian of its own (needs root); ONLY=bookworm,trixie,forky, or next
	@scripts/matrix.sh $(ONLY)
check-asserts: ## pgTAP and isolation tests on a server that checks its assertions, which is built from the source package
	@scripts/asserts.sh
check-sanitize: ## tests of extension and client under AddressSanitizer and UndefinedBehaviorSanitizer, the client's under ThreadSanitizer, too
	@scripts/sanitize.sh
fuzz:        ## throw random input at the core, the functions and the server; MINUTES=n for each target (1)
	@scripts/fuzz.sh
check-valgrind: ## the extension's pgTAP tests under valgrind, on a server that scripts/valgrind-server.sh builds
	@scripts/valgrind.sh
chaos:       ## clients under a nemesis, checked against the contract: MINUTES=1 SEED=random CLIENTS=8 PORTABLE=1
	@scripts/chaos.sh $(if $(PORTABLE),--portable) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(NEMESES),--nemeses $(NEMESES))
chaos-breaks: ## the same against libraries that lack a check each: they must be found; PORTABLE=1
	@scripts/chaos.sh $(if $(PORTABLE),--portable) --break
bench:       ## measure against raw SQL; QUICK=1 for a shorter run
	@bench/run.sh
lint-english: ## look for English that readers stumble over: documents, comments of sql/, --help
	@scripts/lint-english.sh
psql:        ## a shell on the throw-away cluster "dev" (PSQL_CLUSTER=NAME: another), which has the extension in its schema "idem"
	@scripts/psql.sh
down:        ## remove this user's throw-away clusters, of all checkouts: dev, demo and checkout
	@scripts/cluster.sh stop dev
	@scripts/cluster.sh stop demo
	@scripts/cluster.sh stop checkout
install-client: ## build the C++ client and install it, into PREFIX (/usr/local)
	@cmake -S . -B build/client -DIDEM_CLIENT_ONLY=ON
	@cmake --build build/client --parallel $$(nproc)
	@cmake --install build/client $(if $(PREFIX),--prefix $(PREFIX))
install-command: ## build the command `idem` and install it with its man pages, into PREFIX (/usr/local)
	@cmake -S . -B build/command -DIDEM_BUILD_TESTS=OFF
	@cmake --build build/command --target idem-cli --parallel $$(nproc)
	@cmake --install build/command --component command $(if $(PREFIX),--prefix $(PREFIX))
lint:        ## shellcheck, clang-format, codespell and lint-english
	@scripts/lint.sh
lint-tidy:   ## clang-tidy on the extension, the client and the command; FILES=keys/claim, a pattern of their paths
	@scripts/tidy.sh $(FILES)
dist:        ## source archives of the last commit, in build/dist
	@scripts/dist.sh
check-dist:  ## the same, and what they hold builds alone; by pgxnclient as well, where it is
	@scripts/dist.sh --check
deb:         ## Debian packages, in build/packages, built in a root of their own (needs root); SUITE=bookworm,trixie,forky, or this machine's
	@scripts/packages.sh build $(SUITE)
check-deb:   ## install, use, upgrade and purge the packages that were built, in fresh roots (needs root); SUITE=..., or all
	@scripts/packages.sh check $(SUITE)
reproduce-deb: ## build the packages again, elsewhere, and compare the bytes (needs root); SUITE=..., or all
	@scripts/packages.sh reproduce $(SUITE)
image-volume: ## the files of an image volume of CloudNativePG, in build/image-volume, from the package for Debian testing
	@scripts/images.sh layout build/image-volume
check-images: ## what container/Containerfile does, and the image volume, in roots instead of containers (needs root)
	@scripts/images.sh check
plots:       ## draw the figures of docs/performance.tsv and docs/plots/*.tsv into build/plots
	@bench/plots.sh
docs-site:   ## a site with a search from the documents, in build/site; dead links are errors
	@scripts/docs-site.sh
dashboard:   ## draw monitoring/dashboard.json with Grafana's panels into build/dashboard.png, after MINUTES=10 of calls
	@scripts/dashboard.sh $(if $(MINUTES),--minutes $(MINUTES))
release-check: ## what can be run of the release checklist in CONTRIBUTING.md
	@scripts/release-check.sh
help:        ## this list
	@sed -n 's/^\([a-z-]*\):  *## /  make \1\t/p' Makefile | expand -t 24
	@echo 'and, as with any PGXS extension, all, install, uninstall, installcheck, clean'

# `make clean check`: hand PGXS its own.
$(filter-out $(PROJECT_TARGETS),$(MAKECMDGOALS)):
	@$(MAKE) $@

else

EXTENSION   = extension/idem
MODULE_big  = idem
OBJS       := $(patsubst %.cpp,%.o,$(sort $(wildcard extension/src/*/*.cpp)))

DATA_built  = build/idem--$(EXTVERSION).sql
DATA        = $(wildcard sql/idem--*--*.sql)

# The server's headers are not ours to warn about. The server loads modules with RTLD_GLOBAL: calls inside this one are not
# to be looked up among everybody's symbols.
PG_CPPFLAGS = -DIDEM_VERSION='"$(EXTVERSION)"' $(if $(PAUSES),-DIDEM_PAUSES) -Iextension/src -isystem $(includedir_server)
PG_CXXFLAGS = -std=c++20 -Wall -Wextra -Wshadow $(if $(WERROR),-Werror) -fno-semantic-interposition -fvisibility-inlines-hidden \
              -ffile-prefix-map=$(CURDIR)=.
SHLIB_LINK  = -Wl,-Bsymbolic-functions -lstdc++

REGRESS       := $(patsubst tests/regress/sql/%.sql,%,$(sort $(wildcard tests/regress/sql/*.sql)))
REGRESS_OPTS   = --inputdir=tests/regress --outputdir=build/regress
ISOLATION     := $(patsubst tests/isolation/specs/%.spec,%,$(sort $(wildcard tests/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=tests/isolation --outputdir=build/isolation --load-extension=idem
REGRESS_PREP   = build
EXTRA_CLEAN    = build $(OBJS:.o=.d)

PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs))
ifeq (,$(PGXS))
$(error no PostgreSQL server headers for "$(PG_CONFIG)"; `make deps` installs what is missing)
endif
include $(PGXS)

override CXXFLAGS += -MMD -MP $(COPT) # which the server's makefiles give to C alone, before PostgreSQL 18
COMPILE.cxx.bc += $(PG_CXXFLAGS)
$(OBJS): Makefile
extension/src/server/library.o extension/src/operations/module.o: $(EXTENSION).control
extension/src/server/library.o extension/src/server/library.bc: build/source-id
extension/src/server/library.o extension/src/server/library.bc: override CPPFLAGS += -DIDEM_SOURCE_ID=\"$$(cat build/source-id)\"
$(OBJS:.o=.bc): %.bc: %.o
-include $(OBJS:.o=.d)

build:
	mkdir -p $@

# Written when it differs, so that a new commit compiles one file again.
build/source-id: FORCE | build
	scripts/source-id.sh | cmp --silent - $@ || scripts/source-id.sh > $@
FORCE:

$(DATA_built): $(SQL_FILES) $(EXTENSION).control Makefile | build
	{ printf '%s\n' '\echo Use "CREATE EXTENSION idem" to load this file. \quit'; cat $(SQL_FILES); } > $@

.DELETE_ON_ERROR:

endif
