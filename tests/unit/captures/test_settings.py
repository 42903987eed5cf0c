"""What a manifest says of the inventory, and of gpulab."""

import pytest
from ansible.parsing.vault import EncryptedString
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.settings import as_written


def test_what_differs_from_the_defaults_is_recorded_as_it_is_written():
    variables = {
        "nvidia_driver_branch": "580",
        "capture_keep": 14,  # the default
        "tuning_state": "{{ lookup('gpulab.node.option_default', 'tuning_state') }}",
        "gpulab_environments": [{"name": "torch", "framework": "{{ ours }}"}],
        "somebody_elses": "x",
    }
    assert as_written(variables) == {
        "nvidia_driver_branch": "580",
        "gpulab_environments": [{"name": "torch", "framework": "{{ ours }}"}],
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("base_http_proxy", "http://li:s3cret@proxy:3128"),
        ("secure_boot_mok_password", "s3cret-s3cret"),
        ("capture_acknowledged", [{"path": "/x", "reason": EncryptedString(ciphertext="s3cret")}]),
    ],
)
def test_no_secret_is_recorded(name, value):
    written = as_written({name: value})
    assert name in written
    assert "s3cret" not in str(written)
