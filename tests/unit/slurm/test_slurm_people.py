"""The module slurm_people, with the answers of sacctmgr and squeue, which cannot be had here."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.modules import slurm_people

ME = "nobody"  # who is on each host
ENFORCED = "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations\n"
DOWN = (1, "", "Unable to contact slurm controller")


class Module:
    """What the operation asks of an AnsibleModule: no command of Slurm changes anything."""

    def __init__(self, *, check, sacctmgr, squeue, people=((ME, ["vision"]),), pending=False):
        """Take the answers as (rc, output, errors)."""
        self.check_mode = check
        self._answers = {"sacctmgr": sacctmgr, "squeue": squeue}
        self.params = {
            "cluster": "lab",
            "controller": "head",
            "groups": [{"name": "vision"}],
            "people": [{"name": name, "groups": groups} for name, groups in people],
            "shares": {},
            "gpus_per_user": None,
            "interactive": None,
            "people_pending": pending,
        }

    def run_command(self, argv, environ_update):
        """Answer for the program behind timeout."""
        del environ_update
        return self._answers[argv[2]]

    def warn(self, sentence):
        """Take no note."""


@pytest.fixture
def operate(tmp_path, monkeypatch):
    """Return a function that runs the module on a controller with jobs and this slurm.conf."""
    for name in ("STATE", "SLURM_CONF"):
        monkeypatch.setattr(slurm_people, name, tmp_path / name)
    (tmp_path / "STATE").touch()

    def run(conf, *, check=True, sacctmgr=(0, "", ""), squeue=(0, "", ""), **given):
        (tmp_path / "SLURM_CONF").write_text(conf)
        return slurm_people.operate(Module(check=check, sacctmgr=sacctmgr, squeue=squeue, **given))

    return run


def test_where_an_account_is_needed_already_nobody_asks_slurmctld_which_may_be_down(operate):
    assert operate(ENFORCED, squeue=DOWN)["changed"]
    assert operate(ENFORCED, squeue=(0, "mallory|(null)\n", ""))["changed"]


def test_a_slurmctld_that_is_down_refuses_the_change_and_not_the_look_before_it(operate):
    assert operate("", squeue=DOWN)["changed"]
    with pytest.raises(Refusal, match=r"GPULAB-F053 .*tell who has jobs"):
        operate("", squeue=DOWN, check=False)


@pytest.mark.parametrize("sacctmgr", [(0, "", ""), DOWN])
def test_who_would_be_stranded_is_named_before_there_is_an_accounting(operate, sacctmgr):
    with pytest.raises(Refusal, match="GPULAB-F052 mallory"):
        operate("", sacctmgr=sacctmgr, squeue=(0, "mallory|(null)\n", ""))


def test_an_accounting_that_is_down_is_asked_when_it_is_up(operate):
    conf = ENFORCED.splitlines()[0]
    assert operate(conf, sacctmgr=DOWN, squeue=(0, "mallory|(null)\n", ""))["changed"]


@pytest.mark.parametrize("people", [[], [(ME, [])], [("nobody-of-here", ["vision"])]])
def test_nobody_is_shut_out_by_lists_without_people(operate, people):
    with pytest.raises(Refusal, match=r"GPULAB-F054 .*users_people.*gpulab\.node\.users"):
        operate("", people=people)
    assert operate(ENFORCED, people=people)["changed"]


def test_in_check_mode_people_may_still_come(operate):
    assert operate("", people=[("nobody-of-here", ["vision"])], pending=True)["changed"]
