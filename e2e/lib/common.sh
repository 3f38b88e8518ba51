# shellcheck shell=bash
# Messages, packages, bounded waits, and processes that are known by PID and start time.

say() { printf '%s\n' "$@" >&2; }
die() {
	say "e2e/${0##*/}: $1"
	shift
	local hint
	for hint in "$@"; do say "  $hint"; done
	exit 1
}

need_root() { [[ $(id -u) == 0 ]] || die "this must run as root: it starts containers" "Try: sudo --preserve-env $0 $COMMAND"; }

# install_missing PACKAGE...: these, and of the table on standard input those whose command is not there.
install_missing() {
	local missing=("$@") command package
	while read -r command package; do
		command -v "$command" >/dev/null || missing+=("$package")
	done
	((${#missing[@]})) || return 0
	say "installing: ${missing[*]}"
	apt-get update -q >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2
	# The package starts a registry of its own; only the program is wanted.
	[[ " ${missing[*]} " != *" docker-registry "* ]] || systemctl disable --now docker-registry >/dev/null 2>&1 || true
}

# wait_for SECONDS WHAT COMPONENT COMMAND...: polls until COMMAND succeeds. When
# the time is over, or the component has died, its log says more than we can.
wait_for() {
	local end=$((SECONDS + $1)) what=$2 component=$3
	shift 3
	until "$@" >/dev/null 2>&1; do
		if ((SECONDS >= end)) || ! alive "$component"; then fail_with_log "$what" "$component"; fi
		sleep 0.1
	done
}

fail_with_log() {
	say "--- last lines of $STATE/log/$2.log"
	tail -n 25 "$STATE/log/$2.log" >&2 || true
	die "gave up waiting for: $1" "The whole log: e2e/cluster logs $2"
}

# A PID alone can be reused by another program; PID plus start time cannot.
# Field 22 of stat is the start time; the name in field 2 may hold spaces.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# launch NAME COMMAND...: runs a component in the background, in its own session
# so that a Ctrl-C meant for this script does not reach it.
launch() {
	local name=$1
	shift
	setsid env "${GARBAGE[@]}" "$@" >>"$STATE/log/$name.log" 2>&1 </dev/null 9>&- &
	echo "$! $(start_time $!)" >"$STATE/pid/$name"
	disown $!
}

# pid_of NAME: prints the PID of a component if that very process still runs.
pid_of() {
	local pid started
	read -r pid started 2>/dev/null <"$STATE/pid/$1" || return 1
	[[ -n $started && $(start_time "$pid") == "$started" ]] || return 1
	[[ $(process_state "$pid") != Z ]] && echo "$pid"
}
process_state() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f1; }
alive() { pid_of "$1" >/dev/null; }

# stop NAME [SIGNAL]: ends a component and waits until it is gone.
stop() {
	local pid tries=0
	pid=$(pid_of "$1") || { rm -f "$STATE/pid/$1"; return 0; }
	kill "-${2:-TERM}" "$pid" 2>/dev/null || true
	while alive "$1"; do
		((++tries < 80)) || kill -KILL "$pid" 2>/dev/null || true
		((tries < 120)) || die "process $pid ($1) does not end"
		sleep 0.05
	done
	rm -f "$STATE/pid/$1"
}
