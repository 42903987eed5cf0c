"""The order of the roles, and the lists that are made of it."""

from __future__ import annotations

from graphlib import CycleError

import pytest
import role_lists
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.known import Role, in_order

ORDERS = {
    "c follows the first, as b does": ({"a": "", "b": "a", "d": "b", "c": "a"}, ["a", "b", "c", "d"]),
    "by name where nothing else decides": ({"b": "", "a": ""}, ["a", "b"]),
}


def roles(after):
    return [Role(name, f"Do {name}", other) for name, other in after.items()]


@pytest.mark.parametrize(("after", "order"), ORDERS.values(), ids=ORDERS)
def test_a_role_comes_behind_the_one_that_it_follows(after, order):
    assert list(in_order(roles(after))) == order


@pytest.mark.parametrize(("after", "error"), [({"a": "gone"}, KeyError), ({"a": "b", "b": "a"}, CycleError)])
def test_an_order_that_there_cannot_be_is_an_error(after, error):
    with pytest.raises(error):
        in_order(roles(after))


def test_a_task_has_the_tags_of_its_role_also_on_what_is_in_it():
    """Otherwise --tags would leave out all that is in the role."""
    role = Role("a", "Do a", tags=["b"], variables={"a_now": "{{ 'a' }}"})
    (task, other) = yaml.safe_load(role_lists.apply([role, Role("c", "Do c", when="c_now")]))
    assert task == {
        "name": "Do a",
        "ansible.builtin.include_role": {"name": "gpulab.node.a", "apply": {"tags": ["a", "b"]}},
        "vars": {"a_now": "{{ 'a' }}"},
        "when": "'a' in ansible_facts['gpulab_plan'].due",
        "tags": ["a", "b"],
    }
    assert (other["when"], other["tags"]) == ("c_now", "c")
