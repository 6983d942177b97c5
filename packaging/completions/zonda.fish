# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_zonda_global_optspecs
    string join \n h/help V/version
end

function __fish_zonda_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_zonda_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_zonda_using_subcommand
    set -l cmd (__fish_zonda_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c zonda -n "__fish_zonda_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_needs_command" -s V -l version -d 'Print version'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "serve" -d 'Serve zones in the foreground until SIGTERM or SIGINT'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "check" -d 'Find every mistake in a configuration and in zones'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "config" -d 'Print the effective configuration as TOML'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "reload" -d 'Make a running zonda read its configuration and changed zone files again'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "metrics" -d 'Print the metrics of a running zonda in the text format of Prometheus'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "tune" -d 'Advise on the settings of this host: kernel, limits, network card, processors'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "zone" -d 'Show and control the zones of a running zonda'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c zonda -n "__fish_zonda_needs_command" -f -a "man" -d 'Print a manual page in roff: `zonda man serve | man -l -`'
complete -c zonda -n "__fish_zonda_using_subcommand serve" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand serve" -l listen -d 'Listen on this address and port, instead of those of the configuration; can be repeated' -r
complete -c zonda -n "__fish_zonda_using_subcommand serve" -l zone -d 'The zone NAME and its file; can be repeated' -r
complete -c zonda -n "__fish_zonda_using_subcommand serve" -l log-format -d 'The format of the log, instead of the configuration\'s' -r -f -a "text\t'A line of text'
json\t'A JSON object on one line'"
complete -c zonda -n "__fish_zonda_using_subcommand serve" -l log-level -d 'The least severe messages to log, instead of the configuration\'s' -r -f -a "error\t'Needs an operator now'
warn\t'May need an operator later'
info\t'Starts, stops, changes of zones'
debug\t'Details that explain the rest'
trace\t'Everything'"
complete -c zonda -n "__fish_zonda_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand check" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand check" -l zone -d 'The zone NAME and its file; can be repeated' -r
complete -c zonda -n "__fish_zonda_using_subcommand check" -l strict -d 'Report records that break a rule of their RFC but can be served as errors, as `checks = "strict"` does'
complete -c zonda -n "__fish_zonda_using_subcommand check" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand check" -l list -d 'Print the table of all checks as Markdown instead: finding, severity, RFC'
complete -c zonda -n "__fish_zonda_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand config" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand config" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand config" -s h -l help -d 'Print help'
complete -c zonda -n "__fish_zonda_using_subcommand reload" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand reload" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand reload" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand metrics" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand metrics" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand metrics" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l role -d 'What the server mostly does' -r -f -a "udp\t'Answers queries over UDP'
tcp\t'Answers queries over many TCP connections'
secondary\t'Transfers zones in'
primary\t'Transfers zones out'"
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l connections -d 'Concurrent TCP and TLS connections, and as many over QUIC [default: tcp-connections of the configuration]' -r
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l zones -d 'Zones [default: those of the configuration]' -r
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l rate -d 'Queries per second [default: 100000]; for a primary or secondary, transfers per minute [default: all zones]' -r
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l for -d 'The DNS server that the advice is for' -r -f -a "zonda\t'This one'
nsd\t'NLnet Labs NSD'
knot\t'Knot DNS'
bind\t'ISC BIND 9'"
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l only -d 'Advise on this setting only; can be repeated. With --write and --apply, nothing else is changed' -r
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l write -d 'Write files for sysctl.d, limits.d and systemd into this folder, to be copied to /etc by hand' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l root -d 'Read a recorded host below this folder instead of this host' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l apply -d 'Set the advised sysctls now, until the next start of the host, and print the commands that undo it'
complete -c zonda -n "__fish_zonda_using_subcommand tune" -l list -d 'Print the table of all settings as Markdown instead: rule, sources, evidence, risk'
complete -c zonda -n "__fish_zonda_using_subcommand tune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -s h -l help -d 'Print help'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "status" -d 'Show which serial is served, what the primary has, when the zone expires, and the last transfer'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "refresh" -d 'Ask the primaries of a zone for its serial now, and transfer it if it is later'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "retransfer" -d 'Transfer a whole zone now, whatever serial the primary has'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "notify" -d 'Notify the secondaries of a zone now, though it has not changed (NOTIFY, RFC 1996)'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "freeze" -d 'Freeze a zone: neither its file nor transfers nor updates change it until `zonda zone thaw`'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "thaw" -d 'Let a frozen zone change again: read its file if that has changed, and ask its primaries'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "rollback" -d 'Serve an earlier version of a zone again: the previous one, or another one that `keep-versions` keeps'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "add" -d 'Add zones to the running zonda, without a reload. They stay after a restart'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "remove" -d 'Remove zones that were added with `zonda zone add`'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and not __fish_seen_subcommand_from status refresh retransfer notify freeze thaw rollback add remove export" -f -a "export" -d 'Print the version that is served as zone text'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from status" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from status" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from status" -l json -d 'Print JSON: an object for one NAME, else one object per line'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from refresh" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from refresh" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from refresh" -l all -d 'All zones'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from refresh" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from refresh" -s h -l help -d 'Print help'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from retransfer" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from retransfer" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from retransfer" -l all -d 'All zones'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from retransfer" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from retransfer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from notify" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from notify" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from notify" -l all -d 'All zones'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from notify" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from notify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from freeze" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from freeze" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from freeze" -l all -d 'All zones'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from freeze" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from freeze" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from thaw" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from thaw" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from thaw" -l all -d 'All zones'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from thaw" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from thaw" -s h -l help -d 'Print help'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from rollback" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from rollback" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from rollback" -l to -d 'The serial of the version, one of those that `zonda zone status` lists' -r
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from rollback" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from rollback" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from add" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from add" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from add" -l template -d 'The template that the zones take their settings from' -r
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from add" -l list -d 'A file with one zone per line, as `NAME [TEMPLATE]`; `-` is the standard input' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from add" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from remove" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from remove" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from remove" -l list -d 'A file with one zone per line; `-` is the standard input' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from remove" -l json -d 'Print one JSON object'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from export" -l config -d 'The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml]' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from export" -l state-dir -d 'The state-dir of the running zonda, instead of the configuration\'s' -r -F
complete -c zonda -n "__fish_zonda_using_subcommand zone; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help'
complete -c zonda -n "__fish_zonda_using_subcommand completions" -s h -l help -d 'Print help'
complete -c zonda -n "__fish_zonda_using_subcommand man" -l markdown -d 'Print the reference of zonda.toml as Markdown instead'
complete -c zonda -n "__fish_zonda_using_subcommand man" -l list -d 'Print the names of all pages instead'
complete -c zonda -n "__fish_zonda_using_subcommand man" -s h -l help -d 'Print help'
