#!/usr/bin/env bash
# Proves that README's two commands work on a machine with nothing installed: makes a
# minimal Debian 12 root, clones this repository's HEAD into it, runs both commands there.
#
# Needs root, mmdebstrap and a Debian archive. About half an hour on two cores.
#   deploy/check/bare_debian.sh [COMMAND ...]      default: deploy/demo.sh deploy/test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
((EUID == 0)) || { echo "bare_debian.sh needs root, to chroot" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "install mmdebstrap first" >&2; exit 2; }
(($# > 0)) || set -- deploy/demo.sh deploy/test.sh

root=$(mktemp -d)
# Mounts are private to a namespace of this script's, so nothing is left mounted.
if [[ ${GEMMD_IN_NAMESPACE:-} != 1 ]]; then
  rmdir "$root"
  GEMMD_IN_NAMESPACE=1 exec unshare --mount --pid --fork "$0" "$@"
fi
trap 'chmod -R u+w "$root"; rm -rf --one-file-system "$root"' EXIT

mmdebstrap --variant=minbase --include=ca-certificates,git bookworm "$root/debian"
for file in /etc/resolv.conf /etc/hosts; do
  cp "$file" "$root/debian$file"
done
git clone -q --no-local . "$root/debian/gemmd"
mount -t proc proc "$root/debian/proc"
mount --rbind /dev "$root/debian/dev"
mount --make-rslave "$root/debian/dev"

for command in "$@"; do
  echo "== $command, in a bare root"
  chroot "$root/debian" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 bash -c "cd /gemmd && $command"
done
chroot "$root/debian" /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin bash -c \
  'cd /gemmd && bazel shutdown' || true
umount -R "$root/debian/dev" "$root/debian/proc"
echo "every command passed in a bare Debian 12 root"
