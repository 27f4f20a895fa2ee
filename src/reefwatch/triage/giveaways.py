# ruff: noqa: E501 - a pattern is read whole
"""Where a log gives away people, machines and secrets: the patterns that `redact` tries."""

from __future__ import annotations

import re

IPV4 = re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
IPV6 = re.compile(
    r"(?<![\w:.<])\[?(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{3,39}(?:%\w+)?\]?(?![\w:]|\.\w)"
)
MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?![\w:])")
MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+(?!\S*:\d+/)")
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
SERIAL = re.compile(
    r"((?:serial(?: ?(?:number|no))?|uuid|unique[_ ]id|GPU UUID)\W{1,4})(?:GPU-)?(?:0x)?[0-9a-fA-F][0-9a-fA-F-]{11,}",
    re.IGNORECASE,
)
UUID = re.compile(r"\bGPU-[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,}){0,4}")
SHARED = re.compile(
    r"(?<![\w~>])(/(?:scratch|lustre\w*|gpfs\w*|nfs\w*|projects?|pfs)/)(?!<)[\w./-]*?(?=[\w.-]+(?:[\s\"':;,<>()]|$))"
)

# secrets -------------------------------------------------------------------------------------
_KEYS = r"(?:pass(?:word|wd|phrase)?|pwd|secret|credentials?|(?:api|access|private|auth|secret)[_-]?(?:key|token)|(?<![A-Za-z])token)"
QUOTED = re.compile(
    rf"((?:\b|--?|_)[\w.-]*?{_KEYS}(?:s|\d+|[_-](?!ids?\b|type|count|len|limit|prob)\w{{1,12}})?[\"']?\s{{0,2}}(?:=>|[:=]|\s)\s{{0,2}})([\"'])(?!<|\s*\2)((?:\\.|(?!\2).){{1,400}})(\2|$)",
    re.IGNORECASE,
)
LOGIN = re.compile(
    r"(?P<head>(?:^|\s)(?:-u|-U|--user|--proxy-user|--login)[\s=]+(?P<quote>[\"'])?)(?P<user>[^\s:\"'<>]+):(?P<word>(?!//|<)(?(quote)[^\"'<]+|[^\s\"'<]+))"
)
SHORT = re.compile(
    r"(\b(?:sshpass\s+-p|mysql\b[^|\n]{0,80}?\s-p|mysqldump\b[^|\n]{0,80}?\s-p|docker login\b[^|\n]{0,120}?\s(?:-p|--password)|podman login\b[^|\n]{0,120}?\s-p)\s?[\"']?)(?!<)([^\s\"']+)"
)
URL = re.compile(
    r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)([^\s/@:\"'<>]+)?(:[^\s/@\"'<>]*)?@([A-Za-z][\w.-]*)?"
)
PUBLIC = re.compile(
    r"(?:.*\.)?(?:github|gitlab|bitbucket|huggingface|pypi|docker|amazonaws|google\w*|azure|modelscope)\.(?:com|co|org|io|cn)"
)
COOKIE = re.compile(r"((?:set-)?cookie:\s*)(?![\s<]).+", re.IGNORECASE)
PEM = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]*(?:KEY|CERTIFICATE|MESSAGE)[A-Z ]*-----")
ARMOUR = re.compile(r"^(.*?)([A-Za-z0-9+/=_-]{1,80})\s*$|^(.*?)([\w-]+: .*)$")

# where names stand ---------------------------------------------------------------------------
_NAME = r"[A-Za-z_][\w.-]{0,62}"
_FORBIDDEN = r"/\"':;,<>()\\\n\t|*?"
_HOME = re.compile(
    rf"(?<![\w~>])((?:/(?:mnt|data\d*|scratch|work|export|net|lustre\w*|gpfs\w*|nfs\w*|fs\d*|volumes?|media)(?:/[\w.-]+)?)?/(?:home\d*|Users|users|user|u)/)"
    rf"(?!runner/|user[/\s\"']|Shared/|<)((?<=/Users/)[^{_FORBIDDEN}\s]+(?: [A-Z][^{_FORBIDDEN}\s]*){{0,3}}(?=/)|[^{_FORBIDDEN}\s]+)"
)
_QUOTED_HOME = re.compile(
    rf"(?<=[\"'])((?:/home|/Users)/)(?!<)([^{_FORBIDDEN}]+ [^{_FORBIDDEN}]+)(?=[/\"'])"
)
_WINDOWS = re.compile(
    r"([A-Za-z]:(?:\\+|/+)Users(?:\\+|/+))(?!user[\\/]|Public|Default|<)([^\\/\"'<>:;|*?\n]+?)(?=[\\/\"'<>]|$)",
    re.IGNORECASE,
)
_TILDE = re.compile(r"(?<![\w/.~)\]])(~)(?!user\b)([a-z_][\w.-]{1,31})(?=[/\s\"':;,)]|$)")
_INDUCTOR = re.compile(
    r"(torchinductor_|/run/user/|/var/spool/cron/|ray/session_\w*_)(?!<|\d)([A-Za-z_][\w.-]*)"
)
_ACCOUNT = re.compile(
    r"((?:\b(?:USER|LOGNAME|USERNAME|SUDO_USER|RUNNER_USER|SLURM_JOB_USER)|\b(?:user(?:_?name)?|login|logname|account|owner|submitted by))[\"']?\s{0,2}[=:]\s{0,2}[\"']?|\buid=\d+\()(?!<)([a-z_][\w.-]{1,31})(?![\w(.])",
)
_OPTION = re.compile(
    r"(\b(?:mysql\w*|psql|pg_dump|ssh|scp|sftp|rsync|docker login|podman login|smbclient|redis-cli)\b[^|;\n]{0,120}?\s(?:-u|-U|-l|--user(?:name)?)[\s=]?[\"']?)(?!<)([A-Za-z_][\w.-]{1,31})(?=[\s\"']|$)"
)
PROMPT = re.compile(
    rf"(?<![\w.+/:-])([a-z_][\w.-]{{0,31}})@({_NAME}|(?:\d{{1,3}}\.){{3}}\d{{1,3}})(?=[:\s~\]\"',)/]|$)"
)
_JOURNAL = re.compile(
    rf"^((?:(?:{_MONTHS})\s+\d+ [\d:]{{8}}|\d{{4}}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)) )(?!<)({_NAME})(?= [\w./@()-]+(?:\[\d+\])?: )"
)
_NCCL = re.compile(
    rf"((?:^|\s|\))(?!<))({_NAME})(?=:\d+:\d+ (?:\[\w+\] )?(?:NCCL|RCCL|\S+:\d+ NCCL|\[))"
)
_UNAME = re.compile(r"((?:^|\s)Linux )(?!version|kernel|<)([A-Za-z][\w.-]*)(?= \d+\.\d+\.\d+)")
_SLURM = re.compile(
    rf"(\b(?:srun|slurmstepd|slurmd)(?:-\w+)?: (?:error: )?)(?!<|error|launching|Job\b|job\b)({_NAME}?)(?=: )"
)
_SAID = re.compile(
    rf"(\b(?:on (?:the )?(?:host|node)|(?:connected?|connecting|connection) to(?: host)?|ssh|from host|hostname is)\s+\"?)(?!<|localhost|127|the\b|a\b)({_NAME}[\d-][\w.-]*|{_NAME}\.[\w.-]+)",
)
_NODE = re.compile(
    rf"((?:\b|_)(?:host(?:_?name)?|node(?:_?name|list|_?id)?|MASTER_ADDR|master_addr|rdzv_endpoint|server|addr(?:ess)?|ComputerName|machine)[\"']?\s{{0,12}}[=:]\s{{0,2}}[\"']?)"
    rf"(?!localhost|127\.|0\.0\.|<|[Nn]one|[Tt]rue|[Ff]alse|null)({_NAME}\d[\w-]*(?:\.[\w-]+)*|{_NAME}?\.[A-Za-z][\w.-]*|(?<=HOSTNAME=)[\w.-]+)(?![\w.(/])",
    re.IGNORECASE,
)
_CLOUD = re.compile(r"(?<![\w.-])()(ip-\d+-\d+-\d+-\d+(?:\.[\w.-]*\w)?)(?![\w-])")
_DOMAIN = re.compile(
    r"(?:(?<=://)|(?<![\w./@-]))()((?:[A-Za-z0-9][\w-]*\.)+(?:internal|local|lan|corp|intranet|localdomain|cluster|hpc|home\.arpa)(?:\.[\w-]+)*)(?![\w(-]|\.\w)"
)
_Pattern = re.Pattern[str]
USERS: tuple[tuple[_Pattern, tuple[str, ...]], ...] = (
    (_QUOTED_HOME, ("/home/", "/users/")),
    (_HOME, ("/home", "/users/", "/user/", "/u/")),
    (_WINDOWS, ("users",)),
    (_TILDE, ("~",)),
    (_INDUCTOR, ("inductor_", "/run/user/", "/cron/", "ray/session_")),
    (_ACCOUNT, ("user", "login", "logname", "account", "owner", "submitted by", "uid=")),
    (_OPTION, ("sql", "pg_", "ssh", "scp", "sftp", "rsync", "login", "smb", "redis")),
)
"""Where names of people stand, and what a line must hold (lower case) for it to be tried."""
HOSTS: tuple[tuple[_Pattern, tuple[str, ...]], ...] = (
    (_JOURNAL, (":",)),
    (_NCCL, ("nccl", "rccl", " [")),
    (_UNAME, ("linux ",)),
    (_SLURM, ("srun", "slurm")),
    (_SAID, ("host", "node ", "ssh", "connect")),
    (_NODE, ("host", "node", "addr", "endpoint", "server", "machine", "computername")),
    (_CLOUD, ("ip-",)),
    (
        _DOMAIN,
        (".internal", ".local", ".lan", ".corp", ".intranet", ".cluster", ".hpc", ".home.arpa"),
    ),
)
PATHS = ("/scratch/", "/lustre", "/gpfs", "/nfs", "/project", "/pfs/")
LOGINS = ("-u", "--user", "--proxy-user", "--login")
KEYED = ("pass", "pwd", "secret", "credential", "token", "key")
