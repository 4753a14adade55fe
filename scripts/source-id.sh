#!/bin/sh
# Prints the commit that this tree is of, as `git describe` names it; nothing where that is not known. An archive of the tree has it in
# scripts/source-id, where `git archive` has put it.
cd "$(dirname "$0")/.." || exit
if [ -e .git ] && git describe --always --tags --dirty --abbrev=12 2>/dev/null; then exit; fi
sed -n '/Format/!{s/^ *//; s/ .*//; p}' scripts/source-id
