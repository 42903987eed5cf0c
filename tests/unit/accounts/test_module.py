"""The module: homes whose file system a run has yet to mount, and what is judged before that and after."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import plan, wanted
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.modules import user_accounts

LISTS = wanted.parse([], [{"name": "ada", "uid": 20001}], homes="/tank/home")
HOME = plan.Step("home", "ada")


@pytest.fixture(autouse=True)
def node(monkeypatch):
    """Make a node on which the place for homes is not there."""
    monkeypatch.setattr(user_accounts.host, "look", lambda *_: plan.Found(homes_problem="it is not there"))
    monkeypatch.setattr(user_accounts.host, "look_closely", lambda _node, _lists, found: found)


@pytest.mark.parametrize(
    ("mount", "problem", "is_made"),
    [({"/tan": "disk"}, "it is not there", True), ({"/tank": "disk"}, None, True), ({"/tank": "server"}, None, False)],
)
def test_what_a_run_mounts_later_is_no_problem_and_homes_on_a_server_are_made_there(mount, problem, is_made):
    found = user_accounts.look(None, LISTS, mount)
    assert found.homes_problem == problem
    assert (HOME in plan.steps(LISTS, found)) == is_made


@pytest.mark.parametrize(("check_mode", "refused"), [(True, None), (False, "U008")])
def test_only_check_mode_comes_before_the_mount(monkeypatch, check_mode, refused):
    """A run itself looks at what is mounted then: a home that is there is not made once more."""
    monkeypatch.setattr(user_accounts.host, "problem_of_system", lambda *_: None)
    monkeypatch.setattr(user_accounts.host, "drop_in_steps", lambda *_, **__: [])
    params = {
        "groups": [],
        "people": [{"name": "ada", "uid": 20001}],
        "homes": "/tank/home",
        "leave_now": False,
        "unmounted": {"/tank": "disk"},
        "quota": {},
        "directories": [],
        "limits": {},
        "sshd_keys": None,
    }

    class Module:
        """What the module needs of AnsibleModule."""

        def __init__(self):
            self.params, self.check_mode = params, check_mode

        def warn(self, text):
            """Say nothing."""

    if refused:
        with pytest.raises(Refusal) as error:
            user_accounts.operate(Module())
        assert error.value.code == refused
    else:
        assert {"action": "make", "what": "home of ada"} in user_accounts.operate(Module())["changes"]
