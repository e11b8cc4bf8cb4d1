# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by ycsb and ycsb-admin: finds java, builds the class path of one binding, becomes the client.
# Environment: JAVA_HOME, JAVA_OPTS (options of the JVM).

bindings="${home:?is set by the script that sources this}/core/src/main/resources/org/stratabench/ycsb/bindings.properties"

# The folder whose target/ holds a binding; aliases are followed once. Unknown names give core, whose client then refuses them.
module_of() {
    local row
    row=$(sed -n "s/^$1 = //p" "$bindings")
    case $row in
        *' '*) ;;
        ?*) row=$(sed -n "s/^$row = //p" "$bindings") ;;
    esac
    echo "${row%% *}"
}

find_java() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java
    fi
}

class_path_of() {
    local jar module
    for module in core "$1"; do
        for jar in "$home/$module"/target/ycsb-*.jar; do
            if [ ! -e "$jar" ]; then
                echo "error: $module is not built; run: mvn -q -f $home/pom.xml package -DskipTests" >&2
                return 1
            fi
            printf '%s:' "$jar"
        done
    done
    # the binding's dependencies include those of core
    printf '%s' "$home/$1/target/dependency/*"
}

# launch CLASS BINDING ARGUMENT...: takes -cp and -jvm-args out of the arguments, as YCSB's launcher does
launch() {
    local class=$1 binding=$2 java class_path module
    local -a arguments=() jvm=() options=() more=()
    shift 2
    read -r -a jvm <<< "${JAVA_OPTS:-}"
    if ! java=$(find_java); then
        echo "error: java not found; install a JDK 17 or set JAVA_HOME" >&2
        exit 3
    fi
    case $binding in
        *[!A-Za-z0-9_-]*) module=core ;;
        *) module=$(module_of "$binding") ;;
    esac
    module=${module:-core}
    class_path=$(class_path_of "$module") || exit 3
    if [ -e "$home/$module/jvm.options" ]; then
        mapfile -t options < "$home/$module/jvm.options"
        jvm=("${options[@]}" "${jvm[@]}")
    fi
    while [ $# -gt 0 ]; do
        case $1 in
            -cp) class_path="$class_path:${2:-}"; shift ;;
            -cp=*) class_path="$class_path:${1#-cp=}" ;;
            -jvm-args) read -r -a more <<< "${2:-}"; jvm+=("${more[@]}"); shift ;;
            -jvm-args=*) read -r -a more <<< "${1#-jvm-args=}"; jvm+=("${more[@]}") ;;
            *) arguments+=("$1") ;;
        esac
        shift
    done
    # Linux lets every wait last up to 50 us longer to save power, which the client would have to spin away; children inherit the setting
    { echo 1 > /proc/self/timerslack_ns; } 2>/dev/null
    # Code that is compiled already and larger than InlineSmallCode is called, not inlined: at 2,500 bytes, the JDK's default, preparing a request is
    exec "$java" -XX:+UseSerialGC -XX:-UsePerfData -XX:InlineSmallCode=6000 "${jvm[@]}" -cp "$class_path" "$class" "${arguments[@]}"
}
