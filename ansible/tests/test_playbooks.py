# SPDX-License-Identifier: Apache-2.0
"""Single plays of the playbooks on folders of this machine, without a cluster."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import yaml

from controller.inventory import load_inventory

ANSIBLE = Path(__file__).resolve().parents[1]
LAUNCHER = ANSIBLE / "roles" / "common" / "files" / "strata_daemon.py"


def inventory(folder: Path, **groups: list[str]) -> Path:
    """An inventory of hosts that are folders of this machine."""
    names = list(dict.fromkeys(name for members in groups.values() for name in members))
    every = {
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "strata_root": str(folder / "root"),
            "hdfs_replication": 1,
        },
        "hosts": {name: {"strata_address": f"127.0.9.{number}"} for number, name in enumerate(names, 1)},
        "children": {group: {"hosts": dict.fromkeys(members)} for group, members in groups.items()},
    }
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": every}, sort_keys=False), encoding="utf-8")
    return path


def play(hosts: Path, playbook: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [str(program), "-i", str(hosts), str(playbook), *options],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg")},
    )


def one_play(folder: Path, playbook: str, name: str) -> Path:
    """A playbook that holds nothing but one play of another; variables of all groups come with it."""
    plays: list[dict[str, Any]] = yaml.safe_load((ANSIBLE / "playbooks" / playbook).read_text(encoding="utf-8"))
    path = folder / playbook
    path.write_text(yaml.safe_dump([each for each in plays if each["name"] == name]), encoding="utf-8")
    (folder / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    return path


def test_reset_drops_the_data_of_arangodb(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, arangodb=["a1", "a2"], clients=["c1"], agents=["a1", "a2", "c1"])
    nodes = [tmp_path / "root" / "nodes" / name for name in ("a1", "a2")]
    for node in nodes:
        (node / "disk" / "arangodb").mkdir(parents=True)
        (node / "disk" / "arangodb" / "setup.json").touch()
        start = ["start", "it", f"--pidfile={node}/run/arangodb.pid", f"--log={node}/log", "--", "sleep", "60"]
        subprocess.run([sys.executable, str(LAUNCHER), *start], check=True, stdout=subprocess.DEVNULL)
    repository = json.dumps({"strata_repo": str(ANSIBLE.parent)})
    try:
        done = play(hosts, one_play(tmp_path, "reset.yml", "Drop the data"), "-e", repository)
        assert done.returncode == 0, done.stdout
        assert [path for node in nodes for path in (node / "disk", node / "run") if any(path.iterdir())] == []
    finally:
        for node in nodes:
            subprocess.run([sys.executable, str(LAUNCHER), "stop", f"--all={node}/run"], check=True)


def test_scale_refuses_to_take_down_a_host_that_is_more_than_a_region_server(tmp_path: Path) -> None:
    servers = ["n1", "m", "n2"]
    hosts = inventory(
        tmp_path, hbase_master=["m"], hbase_regionserver=servers, clients=["n2"], agents=["n1", "m", "n2"]
    )
    checked = ("--tags", "preflight", "-e")
    allowed = play(hosts, ANSIBLE / "playbooks" / "scale.yml", *checked, "scale_regionservers=3")
    assert allowed.returncode == 0, allowed.stdout
    refused = play(hosts, ANSIBLE / "playbooks" / "scale.yml", *checked, "scale_regionservers=1")
    assert refused.returncode != 0
    assert "m would be taken down, which is also of hbase_master" in refused.stdout
    assert "n2 would be taken down, which is also of clients" in refused.stdout


@pytest.mark.parametrize("role", ["jdk", "chrony", "arangodb"])
def test_after_an_installation_that_failed_what_others_install_is_not_noted_as_ours(role: str, tmp_path: Path) -> None:
    hosts = inventory(tmp_path, arangodb=["a1"])
    tasks = {"name": "Install", "ansible.builtin.include_role": {"name": role, "tasks_from": "install"}}
    playbook = tmp_path / "install.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Install", "hosts": "a1", "tasks": [tasks]}]), encoding="utf-8")
    # No package manager of any kind is asked.
    known = {
        "strata_node_dir": str(tmp_path),
        "strata_script_python": sys.executable,
        "ansible_facts": {"os_family": "Debian", "pkg_mgr": "none"},
        "arangodb_package_url": (tmp_path / "missing.deb").as_uri(),
    }
    done = play(hosts, playbook, "-e", json.dumps(known))
    assert done.returncode != 0
    assert "Note the packages that are there" in done.stdout
    assert not (tmp_path / "packages.before").exists()


SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$0.calls"
case "$1" in
    show) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nUnitFileState=enabled\\n' ;;
    is-system-running) echo running ;;
    is-enabled) echo enabled ;;
esac
"""


@pytest.mark.parametrize(("note", "stopped"), [("packages.before", True), ("packages.added", True), (None, False)])
def test_a_deployment_that_died_before_the_vendors_unit_was_stopped_is_made_up_for(
    note: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stopped: bool
) -> None:
    """The program is there already; the notes tell whether an earlier deployment, whole or not, has brought it."""
    hosts = inventory(tmp_path, arangodb=["a1"])
    programs, node = tmp_path / "bin", tmp_path / "root" / "nodes" / "a1"
    programs.mkdir()
    node.mkdir(parents=True)
    for name, text in {
        "systemctl": SYSTEMCTL,
        "dpkg-query": "#!/bin/sh\necho 'ii  adduser'; echo 'ii  arangodb3'\n",
    }.items():
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    if note:
        (node / note).write_text("adduser" if note == "packages.before" else "arangodb3", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "arangodb.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Run", "hosts": "a1", "roles": ["arangodb"]}]), encoding="utf-8")
    known = {"arangodb_starter": "/bin/true", "arangodb_agency_size": 1, "ansible_service_mgr": "systemd"}
    done = play(hosts, playbook, "-e", json.dumps(known | {"strata_state_dir": str(tmp_path / "none")}))
    asked = programs / "systemctl.calls"
    calls = asked.read_text(encoding="utf-8") if asked.exists() else ""
    assert ("stop arangodb3.service" in calls) == stopped, done.stdout
    assert ("disable arangodb3.service" in calls) == stopped, done.stdout


@pytest.mark.skipif(Path("/usr/sbin/chronyd").exists(), reason="this machine has chrony, whose settings are left alone")
@pytest.mark.parametrize(("kept", "said"), [("yes", ""), ("no", "chrony_servers is for Debian and Ubuntu only")])
def test_servers_of_time_are_not_for_who_keeps_the_clock_otherwise_nor_for_the_rhel_family(
    kept: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    role = {"role": "chrony", "chrony_enabled": True, "chrony_servers": ["192.0.2.1"]}
    playbook = tmp_path / "clock.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Clock", "hosts": "m", "roles": [role]}]), encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "timedatectl").write_text(f"#!/bin/sh\necho NTP={kept}\n", encoding="utf-8")
    (programs / "timedatectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    done = play(hosts, playbook, "-e", json.dumps({"ansible_facts": {"os_family": "RedHat"}}))
    assert (done.returncode == 0) == (not said), done.stdout
    assert said in done.stdout + done.stderr
    assert "changed=0" in done.stdout


def words_of_arangodb(tmp_path: Path, setting: str) -> list[str]:
    """Its servers' command line with that setting, as the role writes it."""
    hosts = inventory(tmp_path, arangodb=["a1"])
    role = ANSIBLE / "roles" / "arangodb"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "command.yml"
    command = {"content": "{{ arangodb_command | to_json }}", "dest": str(tmp_path / "command")}
    whole = {
        "hosts": "a1",
        "vars_files": [str(role / "defaults/main.yml"), str(role / "vars/main.yml")],
        "tasks": [{"name": "Write", "ansible.builtin.copy": command}],
    }
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    done = play(hosts, playbook, "-e", setting)
    assert done.returncode == 0, done.stdout
    words: list[str] = json.loads((tmp_path / "command").read_text(encoding="utf-8"))
    return words


def test_switches_of_arangodb_are_spelt_as_its_servers_take_them(tmp_path: Path) -> None:
    settings = {"arangodb_settings": {"all.b": True, "all.c": False, "all.a": 5, "all.d": "Text"}}
    words = words_of_arangodb(tmp_path, json.dumps(settings))
    assert words[-4:] == ["--args.all.a=5", "--args.all.b=true", "--args.all.c=false", "--args.all.d=Text"]


@pytest.mark.parametrize("given", ["local", "testbed-5", "example-hbase-placements/scenario-3.yml"])
def test_a_playbook_by_hand_finds_the_state_of_strata(given: str, tmp_path: Path) -> None:
    path = ANSIBLE.parent / "inventories" / given
    source = path if path.is_file() else path / "hosts.yml"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "state.yml"
    write = {"content": "{{ strata_state_dir }}", "dest": str(tmp_path / "state")}
    whole = {"hosts": "hbase_master", "tasks": [{"ansible.builtin.copy": write, "delegate_to": "localhost"}]}
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    done = play(source, playbook, "-e", json.dumps({"strata_repo": "/repository", "ansible_become": False}))
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "state").read_text(encoding="utf-8") == f"/repository/.strata/{load_inventory(path).name}"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.skipif(Path("/etc/chrony/sources.d/strata.sources").exists(), reason="this machine is deployed")
def test_a_disk_that_is_mounted_at_the_data_folder_is_emptied(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    data, playbook = tmp_path / "data", tmp_path / "playbooks" / "remove.yml"
    data.mkdir()
    playbook.parent.mkdir()
    (tmp_path / "roles").symlink_to(ANSIBLE / "roles")
    (playbook.parent / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    include = {"ansible.builtin.include_tasks": str(ANSIBLE / "playbooks" / "tasks" / "remove_remote.yml")}
    playbook.write_text(yaml.safe_dump([{"hosts": "m", "tasks": [include]}]), encoding="utf-8")
    known = {"strata_node_dir": str(tmp_path / "node"), "strata_data_dir": str(data)}
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(data)], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        (data / ".stratabench").touch()
        (data / "hdfs").mkdir()
        done = play(hosts, playbook, "-e", json.dumps(known))
        assert done.returncode == 0, done.stdout
        assert data.is_mount()
        assert list(data.iterdir()) == []
    finally:
        subprocess.run(["umount", str(data)], check=True)


SUDO = """#!/bin/sh
while [ "$1" != /bin/sh ]; do shift; done
HOME="${0%/*}/root" exec "$@"
"""


def become_root_by(program: Path, hosts: Path) -> None:
    """Has the inventory say so, as docs/operations.md has it."""
    program.chmod(0o755)
    content = yaml.safe_load(hosts.read_text(encoding="utf-8"))
    content["all"]["vars"] |= {"ansible_become": True, "ansible_become_exe": str(program)}
    hosts.write_text(yaml.safe_dump(content), encoding="utf-8")


def test_ansibles_own_folders_go_also_that_of_who_it_becomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for sudo gives another home; the module that downloads packages makes its folder there."""
    hosts = inventory(tmp_path, hbase_master=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    homes = [tmp_path / "bench", tmp_path / "root"]
    for home in homes:
        home.mkdir()
    (tmp_path / "sudo").write_text(SUDO, encoding="utf-8")
    monkeypatch.setenv("HOME", str(homes[0]))
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")
    (homes[0] / ".strata-ansible").mkdir()
    download = {"url": (tmp_path / "sudo").as_uri(), "dest": str(tmp_path / "package"), "mode": "0644"}
    tasks = yaml.safe_load((ANSIBLE / "playbooks" / "tasks" / "remove_node.yml").read_text(encoding="utf-8"))
    remove = [task for task in tasks if task["name"].startswith("Remove Ansible's folder")]
    become_root_by(tmp_path / "sudo", hosts)
    left = []
    for name, chosen in {"used": [{"ansible.builtin.get_url": download}], "removed": remove}.items():
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump([{"hosts": "m", "tasks": chosen}]), encoding="utf-8")
        done = play(hosts, tmp_path / f"{name}.yml", "-e", json.dumps({"strata_is_remote": True}))
        assert done.returncode == 0, done.stdout
        left.append([(home / ".strata-ansible").exists() for home in homes])
    assert left == [[True, True], [False, False]]


def test_nobody_becomes_root_on_the_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users become root on the nodes, by the inventory, what is done on the controller is done by who runs it."""
    hosts = inventory(tmp_path, hbase_master=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    (tmp_path / "sudo").write_text("#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n", encoding="utf-8")
    monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")
    become_root_by(tmp_path / "sudo", hosts)
    distribution = tmp_path / "hbase"
    (distribution / "lib").mkdir(parents=True)
    (distribution / "lib" / "x.jar").touch()
    stamp = {"version": "1", "jars": {"x.jar": {"size": 0, "sha256": ""}}}
    (distribution / "distribution.json").write_text(json.dumps(stamp), encoding="utf-8")
    playbook = tmp_path / "jars.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Jars", "hosts": "m", "roles": ["hbase_dist"]}]), encoding="utf-8")
    known = {"hbase_dist_source": str(distribution), "hbase_dist_version": "1"}
    done = play(hosts, playbook, "--tags", "distribution", "-e", json.dumps(known))
    assert done.returncode == 0, done.stdout


def test_packages_of_a_node_of_this_machine_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus beside the controller; a stand-in for the package manager notes what it is asked for."""
    hosts = inventory(tmp_path, hbase_master=["m"], hbase_regionserver=["n"], clients=["m"], monitoring=["m"])
    programs, node = tmp_path / "bin", tmp_path / "root" / "nodes" / "m"
    programs.mkdir()
    node.mkdir(parents=True)
    (node / "packages.added").write_text("prometheus", encoding="utf-8")
    for name, text in {"apt-get": 'echo "$@" >> "$0.calls"', "dpkg-query": "echo 'ii  prometheus'"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    done = play(hosts, ANSIBLE / "playbooks" / "teardown.yml")
    assert done.returncode == 0, done.stdout
    assert not node.exists()
    assert "purge prometheus\n" in (programs / "apt-get.calls").read_text(encoding="utf-8")


def tasks_of(content: object) -> Iterator[dict[str, Any]]:
    """All tasks below, those of blocks, too."""
    for each in content if isinstance(content, list) else []:
        yield each
        for part in ("block", "always", "rescue", "tasks", "pre_tasks", "post_tasks"):
            yield from tasks_of(each.get(part))


def test_every_task_on_the_controller_says_that_nobody_becomes_root() -> None:
    files = [*ANSIBLE.glob("roles/*/tasks/*.yml"), *ANSIBLE.glob("playbooks/**/*.yml")]
    plays = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    delegated = [task for each in plays for task in tasks_of(each) if "delegate_to" in task]
    assert delegated
    assert [task["name"] for task in delegated if task.get("vars", {}).get("ansible_become") is not False] == []


def unit(folder: Path, java: str = "java", **known: object) -> Path:
    """The unit of a daemon of a remote node."""
    hosts = inventory(folder, hbase_master=["m"])
    role = ANSIBLE / "roles" / "daemon"
    (folder / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook, written = folder / "unit.yml", folder / "x.service"
    files = [str(role / "defaults" / "main.yml"), str(role / "vars" / "main.yml")]
    template = {"src": str(role / "templates" / "unit.service.j2"), "dest": str(written)}
    tasks = [{"ansible.builtin.template": template}]
    playbook.write_text(yaml.safe_dump([{"hosts": "m", "vars_files": files, "tasks": tasks}]), encoding="utf-8")
    daemon = {"daemon_name": "x", "daemon_title": "X", "daemon_command": [java, "-version"], "strata_is_remote": True}
    done = play(hosts, playbook, "-e", json.dumps(known | daemon))
    assert done.returncode == 0, done.stdout
    return written


@pytest.mark.parametrize(
    ("folders", "hidden"),
    [
        ({"strata_root": "/var/lib/x"}, {"ProtectHome=yes", "PrivateTmp=yes"}),
        ({"strata_root": "/home/bench/x"}, {"ProtectHome=no", "PrivateTmp=yes"}),
        ({"strata_root": "/var/lib/x", "strata_data_dir": "/root/data"}, {"ProtectHome=no", "PrivateTmp=yes"}),
        ({"strata_root": "/var/lib/x", "java": "/home/jdk/bin/java"}, {"ProtectHome=no", "PrivateTmp=yes"}),
        ({"strata_root": "/var/tmp/x"}, {"ProtectHome=yes", "PrivateTmp=no"}),
        ({"strata_root": "/srv/home/tmp"}, {"ProtectHome=yes", "PrivateTmp=yes"}),
    ],
)
def test_a_unit_does_not_hide_what_its_daemon_needs(folders: dict[str, str], hidden: set[str], tmp_path: Path) -> None:
    lines = unit(tmp_path, **folders).read_text(encoding="utf-8").splitlines()
    assert {line for line in lines if line.startswith(("ProtectHome", "PrivateTmp"))} == hidden


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd to say what it understands")
def test_a_unit_is_understood_whatever_its_folders_are_called(tmp_path: Path) -> None:
    written = unit(tmp_path, strata_root="/var/lib/mein 100% $HÖME", java="/bin/true")
    verified = subprocess.run(["systemd-analyze", "verify", written], capture_output=True, text=True, check=False)
    assert written.name not in verified.stderr
    assert verified.returncode == 0
    lines = written.read_text(encoding="utf-8").splitlines()
    words = {line.partition("=")[0]: shlex.split(line.partition("=")[2].replace("%%", "%")) for line in lines}
    assert words["ReadWritePaths"] == ["/var/lib/mein 100% $HÖME/data", "/var/lib/mein 100% $HÖME/tmp"]
    assert "--pidfile=/var/lib/mein 100% $$HÖME/run/x.pid" in words["ExecStartPost"]


def test_a_unit_waits_for_the_disk_that_its_data_are_on(tmp_path: Path) -> None:
    written = unit(tmp_path, strata_root="/var/lib/x", daemon_write_paths=["/data/my 100% disk", "/var/lib/x/tmp"])
    lines = written.read_text(encoding="utf-8").split("[Service]")[0].splitlines()
    (mounts,) = [line.partition("=")[2] for line in lines if line.startswith("RequiresMountsFor=")]
    assert shlex.split(mounts.replace("%%", "%")) == ["/data/my 100% disk", "/var/lib/x/tmp"]


def test_the_namenode_finds_its_folder_whatever_its_name(tmp_path: Path) -> None:
    root = tmp_path / "my 100% test"
    root.mkdir()
    hosts = inventory(root, hbase_master=["m"], hbase_regionserver=["m"])
    role = ANSIBLE / "roles" / "hdfs"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "settings.yml"
    content = {"content": "{{ hdfs_own_settings['dfs.namenode.name.dir'] }}", "dest": str(tmp_path / "value")}
    files = [str(role / "defaults" / "main.yml"), str(role / "vars" / "main.yml")]
    whole = {"hosts": "m", "vars_files": files, "tasks": [{"ansible.builtin.copy": content}]}
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    done = play(hosts, playbook)
    assert done.returncode == 0, done.stdout
    value = (tmp_path / "value").read_text(encoding="utf-8")
    # It reads a URI and takes what is none for the name of a file below its working directory.
    assert " " not in value
    assert url2pathname(urlsplit(value).path) == str(root / "root" / "nodes" / "m" / "data" / "namenode")


def test_grafana_finds_its_dashboards_whatever_their_folder_is_called(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, monitoring=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "grafana.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Write", "hosts": "m", "roles": ["grafana"]}]), encoding="utf-8")
    root = tmp_path / "one, two #3 {x: y}"
    done = play(hosts, playbook, "-e", json.dumps({"strata_root": str(root)}))
    assert done.returncode == 0, done.stdout
    folder = root / "nodes" / "m" / "conf" / "grafana"
    written = yaml.safe_load((folder / "provisioning/dashboards/strata.yml").read_text(encoding="utf-8"))
    assert written["providers"][0]["options"] == {"path": str(folder / "dashboards")}


PROPERTY = """
class Property {
  public static void main(String[] given) throws java.io.IOException {
    var all = new java.util.Properties();
    all.load(new java.io.FileInputStream(given[0]));
    System.out.print(all.getProperty(given[1]).equals(given[2]));
  }
}
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="this machine has no JDK")
def test_zookeeper_finds_its_folder_whatever_its_name(tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    role, written = ANSIBLE / "roles" / "zookeeper", tmp_path / "zoo.cfg"
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    template = {"src": str(role / "templates" / "zoo.cfg.j2"), "dest": str(written)}
    files = [str(role / "defaults/main.yml")]
    whole = {"hosts": "m", "vars_files": files, "tasks": [{"ansible.builtin.template": template}]}
    (tmp_path / "zoo.yml").write_text(yaml.safe_dump([whole]), encoding="utf-8")
    root = "/var/lib/mein #100% €HÖME"
    done = play(hosts, tmp_path / "zoo.yml", "-e", json.dumps({"strata_is_remote": True, "strata_root": root}))
    assert done.returncode == 0, done.stdout
    # By the parser that ZooKeeper uses.
    (tmp_path / "Property.java").write_text(PROPERTY, encoding="ascii")
    said = subprocess.run(
        ["java", str(tmp_path / "Property.java"), str(written), "dataDir", f"{root}/data/zookeeper"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    assert said.stdout == "true", written.read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd to say what it understands")
def test_a_disk_in_a_file_is_mounted_before_the_servers_start(tmp_path: Path) -> None:
    servers = unit(tmp_path, strata_root="/var/lib/x", java="/bin/true").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("After=") and "strata-disk.service" in line for line in servers)
    role, written = ANSIBLE / "roles" / "common", tmp_path / "strata-disk.service"
    template = {"src": str(role / "templates" / "disk.service.j2"), "dest": str(written)}
    whole = {
        "hosts": "m",
        "vars_files": [str(role / "vars/main.yml")],
        "tasks": [{"ansible.builtin.template": template}],
    }
    playbook = tmp_path / "disk.yml"
    playbook.write_text(yaml.safe_dump([whole]), encoding="utf-8")
    known = {"strata_is_remote": True, "strata_root": "/var/lib/mein 100% $HÖME"}
    done = play(tmp_path / "hosts.yml", playbook, "-e", json.dumps(known))
    assert done.returncode == 0, done.stdout
    verified = subprocess.run(["systemd-analyze", "verify", written], capture_output=True, text=True, check=False)
    assert written.name not in verified.stderr
    folder = "/var/lib/mein 100%% $$HÖME"
    words = f'"{folder}/bin/own-disk" make "--image={folder}/disk.img" "--mount={folder}/disk"'
    lines = written.read_text(encoding="utf-8").splitlines()
    assert f"ExecStart=/usr/bin/env python3 {words}" in lines
    assert "ConditionPathExists=/var/lib/mein 100%% $HÖME/disk.img" in lines


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"hbase_settings": {"a": 1, "b": True, "c": "x", "d": 0.5}, "chrony_servers": ["192.0.2.1"]}, ""),
        ({"chrony_servers": "192.0.2.1,192.0.2.2"}, "chrony_servers is a text"),
        ({"hbase_settings": "a=b"}, "hbase_settings is a text"),
        ({"hdfs_settings": {"dfs.a": ["x", "y"], "dfs.b": None}}, "hdfs_settings: dfs.a, dfs.b: a text, a number"),
        ({"hdfs_settings": {"dfs.namenode.name.dir": "/d"}}, "hdfs_settings: dfs.namenode.name.dir cannot be set"),
        ({"hdfs_settings": {"dfs.datanode.data.dir": "/d"}}, "hdfs_settings: dfs.datanode.data.dir cannot be set"),
    ],
)
def test_settings_that_only_seem_to_fit_are_refused_first(given: dict[str, object], said: str, tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"], hbase_regionserver=["m"], clients=["m"], agents=["m"])
    done = play(hosts, ANSIBLE / "playbooks" / "check.yml", "-e", json.dumps(given))
    assert (done.returncode == 0) == (not said), done.stdout + done.stderr
    assert said in " ".join((done.stdout + done.stderr).split())


def test_a_check_of_what_is_deployed_finds_no_difference(tmp_path: Path) -> None:
    """In the agent's settings, which say whether the node's data has a disk of its own."""
    hosts = inventory(tmp_path, hbase_master=["m"], hbase_regionserver=["m"], agents=["m"])
    (tmp_path / "group_vars").symlink_to(ANSIBLE / "playbooks" / "group_vars")
    playbook = tmp_path / "node.yml"
    roles = [{"role": "common", "common_own_disk": True}, {"role": "agent"}]
    playbook.write_text(yaml.safe_dump([{"name": "Node", "hosts": "m", "roles": roles}]), encoding="utf-8")
    known = {"strata_data_dir": str(tmp_path / "data"), "common_min_memory_mb": 0, "common_min_disk_mb": 0}
    options = ("--skip-tags", "start", "--diff", "-e", json.dumps(known))
    for more, changed in (("--check", True), ("--diff", True), ("--diff", False), ("--check", False)):
        done = play(hosts, playbook, *options, more)
        assert done.returncode == 0, done.stdout
        assert ("changed=0" not in done.stdout) == changed, done.stdout
        assert (tmp_path / "data").exists() or more == "--check"


@pytest.mark.parametrize("role", ["chrony", "jdk"])
def test_a_switch_may_be_a_word_as_the_command_line_and_ini_files_give_it(role: str, tmp_path: Path) -> None:
    hosts = inventory(tmp_path, hbase_master=["m"])
    playbook = tmp_path / "switch.yml"
    playbook.write_text(yaml.safe_dump([{"name": "Switch", "hosts": "m", "roles": [role]}]), encoding="utf-8")
    switch = {"chrony": "chrony_enabled=no", "jdk": "jdk_install=false"}[role]
    done = play(hosts, playbook, "-e", switch, "-e", "jdk_java=/nonexistent/java")
    assert "must be a boolean" not in done.stdout + done.stderr
    assert "must have a boolean result" not in done.stdout + done.stderr
    # Nothing is installed; and a Java that is missing is said.
    assert (done.returncode == 0) == (role == "chrony"), done.stdout
    assert "Note the packages that are there" not in done.stdout
    assert role == "chrony" or "Java 17 is missing" in done.stdout + done.stderr


@pytest.mark.parametrize(("switch", "options"), [("false", 0), ("true", 1)])
def test_tls_of_arangodb_is_what_its_switch_says_also_as_a_word(switch: str, options: int, tmp_path: Path) -> None:
    words = words_of_arangodb(tmp_path, f"arangodb_tls={switch}")
    assert sum(word.startswith("--ssl.keyfile=") for word in words) == options
