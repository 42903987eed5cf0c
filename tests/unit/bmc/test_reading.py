"""A stand-in BMC is read as it is; each fault is refused or named, and none is taken for an absent part."""

import json
import socket
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.secret_texts import HIDDEN
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import judge
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.connection import MOST_BYTES
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import settings
from stubs import bmc as stub


@pytest.fixture
def read(connect):
    def reading(serial=stub.SERIAL, **given):
        with connect(**given) as connection:
            return connection.read(serial)

    return reading


@pytest.fixture
def refused(read):
    """Return the refusal of a reading, whose text never has the password."""

    def code(**given):
        with pytest.raises(Refusal) as raised:
            read(**given)
        assert stub.PASSWORD not in str(raised.value)
        return raised.value

    return code


def silent(reading):
    return {one.part: one.why for one in reading.not_read}


def test_all_parts_of_a_good_bmc_are_read(read):
    found = read()
    assert (found.power, found.health, found.model, found.chassis_systems) == ("On", "OK", "Node 8", 1)
    assert {one.name: one.version for one in found.firmware} == {
        "BIOS": "2.1.7",
        "BMC": "1.4.2",
        "Network adapter": "28.39.1002",
    }
    assert found.resets == ["On", "ForceOff", "GracefulShutdown", "ForceRestart"]
    assert [(log.name, log.records, log.full) for log in found.logs] == [("SEL (system)", 2, False)]
    assert [event.message for event in found.events] == ["all well", "Power supply 2 lost"]
    assert abs(found.clock_seconds) < 5
    assert found.not_read == []


def test_the_session_is_deleted_and_nothing_else_is_changed(bmc, read):
    read()
    changing = [(method, path) for method, path, _body in bmc.asked if method != "GET"]
    sessions = "/redfish/v1/SessionService/Sessions"
    assert changing == [("POST", sessions), ("DELETE", f"{sessions}/7")]
    assert bmc.sessions == set()


def test_a_bmc_without_sessions_is_asked_with_name_and_password(bmc, read):
    bmc.has_sessions = False
    assert read().power == "On"


def test_the_session_is_deleted_after_a_refusal_too(bmc, refused):
    assert refused(serial="ELSE1").code == "F103"
    assert bmc.sessions == set()


def test_the_system_is_chosen_by_its_number_and_never_the_first(read):
    assert read(serial=stub.SERIAL).path.endswith("/1")
    assert read(serial=stub.OTHER).path.endswith("/other")


def test_a_bmc_of_another_machine_is_refused_and_names_whom_it_has(refused):
    refusal = refused(serial="NOT-MINE1")
    assert refusal.code == "F103"
    assert stub.SERIAL in refusal.cause


def test_two_systems_of_one_number_are_refused(bmc, refused):
    bmc.documents["Systems/other"]["SerialNumber"] = stub.SERIAL
    assert refused().code == "F103"


def test_a_system_that_does_not_answer_hides_no_other(bmc, read):
    bmc.statuses["Systems/other"] = 503  # as a board of GPUs while the host is off
    assert silent(read()) == {"system other": "it answers 503"}


def test_another_certificate_is_refused_before_the_password_is_sent(bmc, refused):
    refusal = refused(fingerprint="ab" * 32)
    assert refusal.code == "F101"
    assert bmc.fingerprint in refusal.cause
    assert bmc.asked == []


def test_a_missing_fingerprint_is_refused_and_shows_the_one_there_is(bmc, refused):
    refusal = refused(fingerprint="")
    assert refusal.code == "F108"
    assert bmc.fingerprint in refusal.cause
    assert bmc.asked == []


def test_a_fingerprint_may_have_colons_and_capitals(bmc, read):
    pairs = [bmc.fingerprint[at : at + 2].upper() for at in range(0, 64, 2)]
    assert read(fingerprint=":".join(pairs)).power == "On"


def test_a_wrong_password_is_refused_after_one_try(bmc, refused):
    assert refused(password=stub.TOKEN).code == "F102"
    assert [method for method, _path, _body in bmc.asked].count("POST") == 1


def test_a_locked_account_is_refused(bmc, refused):
    bmc.statuses["SessionService/Sessions"] = 403
    assert refused().code == "F102"


def test_a_bmc_that_is_not_there_is_refused(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert refused(address=f"127.0.0.1:{taken.getsockname()[1]}").code == "F100"


def test_a_bmc_that_never_answers_is_refused_in_time(refused):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        begun = time.monotonic()
        assert refused(address=f"127.0.0.1:{deaf.getsockname()[1]}", seconds=0.5).code == "F100"
        assert time.monotonic() - begun < 5


def test_a_bmc_that_sends_octet_by_octet_is_cut_in_time(bmc, refused):
    bmc.drip = True
    begun = time.monotonic()
    assert refused(seconds=1.0).code == "F100"
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize("status", [404, 500, 503, 403])
@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("Chassis/1", "chassis"),
        ("UpdateService", "firmware"),
        ("UpdateService/FirmwareInventory", "firmware"),
        ("UpdateService/FirmwareInventory/NIC", "firmware NIC"),
        ("Managers/1", "BMC"),
        ("Systems/1/LogServices", "log of the system"),
        ("Systems/1/LogServices/SEL/Entries", "log of the system"),
    ],
)
def test_a_part_that_does_not_answer_is_not_read_and_the_others_are(bmc, read, path, part, status):
    bmc.statuses[path] = status
    found = read()
    assert silent(found) == {part: f"it answers {status}"}
    assert found.power == "On"
    assert bmc.sessions == set()


@pytest.mark.parametrize(
    "place",
    [
        "https://elsewhere.example/redfish/v1/UpdateService/FirmwareInventory",
        "//elsewhere.example/redfish/v1/x",
        "/redfish/v1/../../etc",
        "/other/v1/x",
        "/redfish/v1/x\r\nX-Auth: y",
        "/redfish/v1/a b",
    ],
)
def test_a_link_that_leaves_the_bmc_is_not_followed(bmc, read, place):
    bmc.documents["UpdateService"] = {"FirmwareInventory": {"@odata.id": place}}
    assert silent(read())["firmware"].startswith("its link leaves the BMC")
    assert all(path.startswith("/redfish/v1") and ".." not in path for _method, path, _body in bmc.asked)


def test_a_redirect_is_not_followed(bmc, read):
    bmc.redirects["UpdateService"] = "/redfish/v1/Elsewhere"
    assert silent(read()) == {"firmware": "it answers 302"}
    assert "/redfish/v1/Elsewhere" not in [path for _method, path, _body in bmc.asked]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "no JSON"),
        (b"[" * 100000, "no JSON"),
        (b'{"FirmwareInventory": 7}', "form is wrong"),
        (b'["a"]', "form is wrong"),
        (b"\xff\xfe", "no JSON"),
        (b" " * (MOST_BYTES + 2), "more than"),
    ],
)
def test_an_answer_of_another_form_is_not_read(bmc, read, body, why):
    bmc.bodies["UpdateService"] = body
    assert why in silent(read())["firmware"]


def test_something_that_is_no_redfish_is_refused(bmc, refused):
    bmc.bodies[""] = b"<html>hello</html>"
    assert refused().code == "F107"


def test_a_collection_without_end_is_cut(bmc, read):
    collection = bmc.documents["UpdateService/FirmwareInventory"]
    collection["Members@odata.nextLink"] = "/redfish/v1/UpdateService/FirmwareInventory"
    assert "more than" in silent(read())["firmware"]


def test_pages_of_a_log_are_read(bmc, read):
    entries = "Systems/1/LogServices/SEL/Entries"
    bmc.documents[entries]["Members@odata.nextLink"] = "/redfish/v1/more?$skip=2"
    bmc.documents["more"] = {"Members": [stub.entry(3)]}
    assert [event.number for event in read().events] == ["1", "2", "3"]


def test_records_that_are_links_alone_are_read(bmc, read):
    bmc.documents["Systems/1/LogServices/SEL/Entries"] = stub.members("e/1")
    bmc.documents["e/1"] = stub.entry(1, "Warning", "fan")
    assert [event.message for event in read().events] == ["fan"]


def test_texts_of_a_bmc_are_one_short_line_without_control_codes_and_secrets(bmc, read):
    bmc.documents["Systems/1"]["Model"] = f"\x1b[2J{stub.PASSWORD}\n{stub.TOKEN} " + "x" * 5000
    model = read().model
    assert model.isprintable()
    assert len(model) <= 200
    assert stub.PASSWORD not in model
    assert stub.TOKEN not in model


def test_a_full_log_that_overwrites_loses_nothing(bmc, read):
    service = bmc.documents["Systems/1/LogServices/SEL"]
    service["MaxNumberOfRecords"] = 2
    assert [log.full for log in read().logs] == [True]
    service["OverWritePolicy"] = "WrapsWhenFull"
    assert [log.full for log in read().logs] == [False]


def ids(reading, before=None):
    return [one.id for one in judge.findings(reading, judge.new_events(reading, before))]


def test_findings_name_what_to_look_at(bmc, read):
    assert ids(read()) == ["bmc-events"]
    bmc.clock = -90
    bmc.documents["Systems/1"]["Status"] = {"Health": "Critical"}
    bmc.documents["Systems/1/LogServices/SEL"]["MaxNumberOfRecords"] = 2
    assert ids(read()) == ["bmc-health", "bmc-events", "bmc-clock", "bmc-log-full"]


def kept(reading, before=None):
    new = judge.new_events(reading, before)
    return judge.kept(reading, before, judge.document("node07", "2026-11-29T12:00:00Z", reading, new, []))


def test_only_what_came_since_the_last_reading_is_new(bmc, read):
    record = kept(read())
    assert judge.new_events(read(), record) == []
    bmc.documents["Systems/1/LogServices/SEL/Entries"]["Members"].append(stub.entry(3, "Critical", "ECC"))
    assert [event.message for event in judge.new_events(read(), record)] == ["ECC"]


def test_numbers_that_begin_anew_after_a_log_was_cleared_are_new(bmc, read):
    record = kept(read())
    cleared = [stub.entry(1, "Critical", "again", created="2026-11-30T00:00:00Z")]
    bmc.documents["Systems/1/LogServices/SEL/Entries"]["Members"] = cleared
    assert [event.message for event in judge.new_events(read(), record)] == ["again"]


def test_a_log_that_was_not_read_keeps_what_was_seen(bmc, read):
    record = kept(read())
    bmc.statuses["Systems/1/LogServices/SEL/Entries"] = 503
    record = kept(read(), record)
    bmc.statuses.clear()
    assert judge.new_events(read(), record) == []


def test_a_document_is_json_and_its_lines_say_what_was_not_read(bmc, read):
    bmc.statuses["UpdateService"] = 503
    found = read()
    assert json.loads(json.dumps(kept(found).document))["not_read"] == [{"part": "firmware", "why": "it answers 503"}]
    assert "not read, which does not mean absent: firmware (it answers 503)" in judge.lines(found, [], [])


BEFORE = judge.Record("node07", stub.SERIAL, "2026-11-29T12:00:00Z")


@pytest.mark.parametrize(
    ("given", "inside", "before", "serial"),
    [
        ("PLATE1", "INSIDE1", BEFORE, "PLATE1"),
        ("", stub.SERIAL, None, stub.SERIAL),
        ("", stub.SERIAL, BEFORE, stub.SERIAL),
        ("", None, BEFORE, stub.SERIAL),
    ],
)
def test_the_machine_is_known_by_the_inventory_then_by_itself_then_by_the_record(given, inside, before, serial):
    assert judge.serial("node07", given, inside, before, "FILE") == serial


@pytest.mark.parametrize(
    ("inside", "before", "code"),
    [
        (None, None, "F105"),
        ("", None, "F105"),
        ("To be filled by O.E.M.", None, "F105"),
        ("0123456789", None, "F105"),
        ("00000000", None, "F105"),
        ("Default1 string", None, "F105"),
        (stub.OTHER, BEFORE, "F106"),
    ],
)
def test_a_machine_that_nothing_names_or_that_became_another_is_refused(inside, before, code):
    with pytest.raises(Refusal) as raised:
        judge.serial("node07", "", inside, before, "FILE")
    assert raised.value.code == code


def test_a_capture_does_not_keep_the_password():
    kept = settings.as_written({"bmc_password": stub.PASSWORD, "bmc_user": stub.USER})
    assert kept == {"bmc_password": HIDDEN, "bmc_user": stub.USER}


BIOS = {"kind": "900-1", "component": "BIOS", "versions": ["2.1.8"], "why": None}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, ["BIOS of 900-1 is 2.1.7, wanted is 2.1.8"]),
        ({"versions": ["2.1.8", "3"], "why": "a hang"}, ["BIOS of 900-1 is 2.1.7, wanted is 2.1.8 or 3: a hang"]),
        ({"versions": ["2.1.6"]}, ["BIOS of 900-1 is 2.1.7, wanted is 2.1.6"]),  # nobody knows which is older
        ({"versions": ["2.1.7"]}, []),
        ({"kind": "900-2"}, []),
        ({"component": "CPLD"}, []),
    ],
)
def test_firmware_that_is_not_as_wanted_is_named(read, wanted, told):
    assert [one.text for one in judge.unwanted(read(), [{**BIOS, **wanted}])] == told


def test_firmware_without_a_version_has_no_verdict(bmc, read):
    bmc.documents["UpdateService/FirmwareInventory/NIC"]["Version"] = None
    assert judge.unwanted(read(), [{**BIOS, "component": "Network adapter"}]) == []
