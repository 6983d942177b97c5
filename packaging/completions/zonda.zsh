#compdef zonda

autoload -U is-at-least

_zonda() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_zonda_commands" \
"*::: :->zonda" \
&& ret=0
    case $state in
    (zonda)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:zonda-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'*--listen=[Listen on this address and port, instead of those of the configuration; can be repeated]:ADDR:PORT:_default' \
'*--zone=[The zone NAME and its file; can be repeated]:NAME=FILE:_default' \
'--log-format=[The format of the log, instead of the configuration'\''s]:FORMAT:((text\:"A line of text"
json\:"A JSON object on one line"))' \
'--log-level=[The least severe messages to log, instead of the configuration'\''s]:LEVEL:((error\:"Needs an operator now"
warn\:"May need an operator later"
info\:"Starts, stops, changes of zones"
debug\:"Details that explain the rest"
trace\:"Everything"))' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::paths -- Zone files, and folders of files called NAME.zone:_files' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'*--zone=[The zone NAME and its file; can be repeated]:NAME=FILE:_default' \
'--strict[Report records that break a rule of their RFC but can be served as errors, as \`checks = "strict"\` does]' \
'--json[Print one JSON object]' \
'(--strict --json)--list[Print the table of all checks as Markdown instead\: finding, severity, RFC]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::paths -- Zone files, and folders of files called NAME.zone:_files' \
&& ret=0
;;
(config)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(reload)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'--json[Print one JSON object]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(metrics)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(tune)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'--role=[What the server mostly does]:ROLE:((udp\:"Answers queries over UDP"
tcp\:"Answers queries over many TCP connections"
secondary\:"Transfers zones in"
primary\:"Transfers zones out"))' \
'--connections=[Concurrent TCP and TLS connections, and as many over QUIC \[default\: tcp-connections of the configuration\]]:N:_default' \
'--zones=[Zones \[default\: those of the configuration\]]:N:_default' \
'--rate=[Queries per second \[default\: 100000\]; for a primary or secondary, transfers per minute \[default\: all zones\]]:N:_default' \
'--for=[The DNS server that the advice is for]:SERVER:((zonda\:"This one"
nsd\:"NLnet Labs NSD"
knot\:"Knot DNS"
bind\:"ISC BIND 9"))' \
'*--only=[Advise on this setting only; can be repeated. With --write and --apply, nothing else is changed]:NAME:_default' \
'--write=[Write files for sysctl.d, limits.d and systemd into this folder, to be copied to /etc by hand]:FOLDER:_files' \
'--root=[Read a recorded host below this folder instead of this host]:FOLDER:_files' \
'--json[Print one JSON object]' \
'(--root)--apply[Set the advised sysctls now, until the next start of the host, and print the commands that undo it]' \
'(--json --write --apply)--list[Print the table of all settings as Markdown instead\: rule, sources, evidence, risk]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(zone)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
":: :_zonda__subcmd__zone_commands" \
"*::: :->zone" \
&& ret=0

    case $state in
    (zone)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:zonda-zone-command-$line[1]:"
        case $line[1] in
            (status)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'--json[Print JSON\: an object for one NAME, else one object per line]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(refresh)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'()--all[All zones]' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(retransfer)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'()--all[All zones]' \
'--json[Print one JSON object]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(notify)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'()--all[All zones]' \
'--json[Print one JSON object]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(freeze)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'()--all[All zones]' \
'--json[Print one JSON object]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(thaw)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'()--all[All zones]' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(rollback)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'--to=[The serial of the version, one of those that \`zonda zone status\` lists]:SERIAL:_default' \
'--json[Print one JSON object]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(add)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'--template=[The template that the zones take their settings from]:NAME:_default' \
'()--list=[A file with one zone per line, as \`NAME \[TEMPLATE\]\`; \`-\` is the standard input]:FILE:_files' \
'--json[Print one JSON object]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(remove)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'()--list=[A file with one zone per line; \`-\` is the standard input]:FILE:_files' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
'*::zones -- The zones:_default' \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
'--config=[The configuration file \[default\: the first that exists of \$XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml\]]:FILE:_files' \
'(--config)--state-dir=[The state-dir of the running zonda, instead of the configuration'\''s]:FOLDER:_files' \
'-h[Print help]' \
'--help[Print help]' \
':zone -- The zone:_default' \
&& ret=0
;;
        esac
    ;;
esac
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
':shell -- The shell:(bash elvish fish powershell zsh)' \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
'--markdown[Print the reference of zonda.toml as Markdown instead]' \
'(--markdown)--list[Print the names of all pages instead]' \
'-h[Print help]' \
'--help[Print help]' \
'::page -- The page\: zonda, a command of it, or zonda.toml:_default' \
&& ret=0
;;
        esac
    ;;
esac
}

(( $+functions[_zonda_commands] )) ||
_zonda_commands() {
    local commands; commands=(
'serve:Serve zones in the foreground until SIGTERM or SIGINT' \
'check:Find every mistake in a configuration and in zones' \
'config:Print the effective configuration as TOML' \
'reload:Make a running zonda read its configuration and changed zone files again' \
'metrics:Print the metrics of a running zonda in the text format of Prometheus' \
'tune:Advise on the settings of this host\: kernel, limits, network card, processors' \
'zone:Show and control the zones of a running zonda' \
'completions:Print completions for a shell' \
'man:Print a manual page in roff\: \`zonda man serve | man -l -\`' \
    )
    _describe -t commands 'zonda commands' commands "$@"
}
(( $+functions[_zonda__subcmd__check_commands] )) ||
_zonda__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'zonda check commands' commands "$@"
}
(( $+functions[_zonda__subcmd__completions_commands] )) ||
_zonda__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'zonda completions commands' commands "$@"
}
(( $+functions[_zonda__subcmd__config_commands] )) ||
_zonda__subcmd__config_commands() {
    local commands; commands=()
    _describe -t commands 'zonda config commands' commands "$@"
}
(( $+functions[_zonda__subcmd__man_commands] )) ||
_zonda__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'zonda man commands' commands "$@"
}
(( $+functions[_zonda__subcmd__metrics_commands] )) ||
_zonda__subcmd__metrics_commands() {
    local commands; commands=()
    _describe -t commands 'zonda metrics commands' commands "$@"
}
(( $+functions[_zonda__subcmd__reload_commands] )) ||
_zonda__subcmd__reload_commands() {
    local commands; commands=()
    _describe -t commands 'zonda reload commands' commands "$@"
}
(( $+functions[_zonda__subcmd__serve_commands] )) ||
_zonda__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'zonda serve commands' commands "$@"
}
(( $+functions[_zonda__subcmd__tune_commands] )) ||
_zonda__subcmd__tune_commands() {
    local commands; commands=()
    _describe -t commands 'zonda tune commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone_commands] )) ||
_zonda__subcmd__zone_commands() {
    local commands; commands=(
'status:Show which serial is served, what the primary has, when the zone expires, and the last transfer' \
'refresh:Ask the primaries of a zone for its serial now, and transfer it if it is later' \
'retransfer:Transfer a whole zone now, whatever serial the primary has' \
'notify:Notify the secondaries of a zone now, though it has not changed (NOTIFY, RFC 1996)' \
'freeze:Freeze a zone\: neither its file nor transfers nor updates change it until \`zonda zone thaw\`' \
'thaw:Let a frozen zone change again\: read its file if that has changed, and ask its primaries' \
'rollback:Serve an earlier version of a zone again\: the previous one, or another one that \`keep-versions\` keeps' \
'add:Add zones to the running zonda, without a reload. They stay after a restart' \
'remove:Remove zones that were added with \`zonda zone add\`' \
'export:Print the version that is served as zone text' \
    )
    _describe -t commands 'zonda zone commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__add_commands] )) ||
_zonda__subcmd__zone__subcmd__add_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone add commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__export_commands] )) ||
_zonda__subcmd__zone__subcmd__export_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone export commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__freeze_commands] )) ||
_zonda__subcmd__zone__subcmd__freeze_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone freeze commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__notify_commands] )) ||
_zonda__subcmd__zone__subcmd__notify_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone notify commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__refresh_commands] )) ||
_zonda__subcmd__zone__subcmd__refresh_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone refresh commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__remove_commands] )) ||
_zonda__subcmd__zone__subcmd__remove_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone remove commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__retransfer_commands] )) ||
_zonda__subcmd__zone__subcmd__retransfer_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone retransfer commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__rollback_commands] )) ||
_zonda__subcmd__zone__subcmd__rollback_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone rollback commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__status_commands] )) ||
_zonda__subcmd__zone__subcmd__status_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone status commands' commands "$@"
}
(( $+functions[_zonda__subcmd__zone__subcmd__thaw_commands] )) ||
_zonda__subcmd__zone__subcmd__thaw_commands() {
    local commands; commands=()
    _describe -t commands 'zonda zone thaw commands' commands "$@"
}

if [ "$funcstack[1]" = "_zonda" ]; then
    _zonda "$@"
else
    compdef _zonda zonda
fi
