"""POSIX sh functions that compare a job's nodes with the allowed ones.

They use builtins only, so that neither the node nor the job's environment can change the result.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

# rb_names prints each name of a hostlist such as a[1-3,07],b; a partial name begins with "=", so that there is always
# one. rb_outside prints the names of hostlist $1 that are not among the words of $2, or ? if there is no name.
FUNCTIONS = """\
rb_names() {
    rb_rest=$1
    while [ -n "$rb_rest" ]; do
        rb_made==
        while :; do
            rb_text=${rb_rest%%[[,]*}
            rb_rest=${rb_rest#"$rb_text"}
            rb_next=
            for rb_one in $rb_made; do rb_next="$rb_next $rb_one$rb_text"; done
            rb_made=$rb_next
            case $rb_rest in
            '['*) rb_list=${rb_rest#?}; rb_rest=${rb_rest#*]}; rb_numbers "${rb_list%%]*}" ;;
            ','*) rb_rest=${rb_rest#?}; break ;;
            *) break ;;
            esac
        done
        for rb_one in $rb_made; do printf '%s\\n' "${rb_one#=}"; done
    done
}
rb_numbers() {
    rb_next=
    IFS=,
    for rb_range in $1; do
        rb_first=${rb_range%%-*}
        rb_last=${rb_range#*-}
        case $rb_first in 0*) rb_width=${#rb_first} ;; *) rb_width=0 ;; esac
        rb_at=${rb_first#"${rb_first%%[!0]*}"}
        rb_end=${rb_last#"${rb_last%%[!0]*}"}
        rb_at=${rb_at:-0}
        while [ "$rb_at" -le "${rb_end:-0}" ]; do
            rb_text=$rb_at
            while [ ${#rb_text} -lt "$rb_width" ]; do rb_text=0$rb_text; done
            IFS=' '
            for rb_one in $rb_made; do rb_next="$rb_next $rb_one$rb_text"; done
            rb_at=$((rb_at + 1))
        done
    done
    unset IFS
    rb_made=$rb_next
}
rb_outside() {
    set -f
    rb_any=
    for rb_name in $(rb_names "$1"); do
        rb_any=1
        case " $2 " in *" $rb_name "*) ;; *) printf '%s ' "$rb_name" ;; esac
    done
    [ -n "$rb_any" ] || printf '?'
}
"""


def allowed_words(names: Iterable[str]) -> str:
    """Return allowed names as one quoted word: the second argument of rb_outside."""
    return shlex.quote(" ".join(names))
