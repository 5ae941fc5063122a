"""The schedule of the strength."""

import pytest

from ngem import _defaults

from .common import assert_same, gradients, inputs, ours, torch


def test_a_schedule_steps_resumes_and_moves_with_the_module():
    schedule = ours.PowerSchedule(10, start=1.0, end=0.2, fraction=0.5)
    settings = {"flattening": schedule.flattening, "coordinates": schedule.coordinates}
    criterion = ours.NGEMLoss(power=schedule)
    leaves = inputs()
    powers = []
    for _ in range(10):
        powers.append(float(schedule.power))
        expected = gradients(leaves, power=powers[-1], **settings)
        assert_same(torch.autograd.grad(criterion(*leaves), leaves[:3]), expected, rtol=1e-6)
        schedule.step()
    assert powers == pytest.approx([1.0, 0.84, 0.68, 0.52, 0.36] + 5 * [0.2])
    other = ours.NGEMLoss(power=ours.PowerSchedule(10, start=1.0, end=0.2, fraction=0.5))
    other.load_state_dict(criterion.state_dict())
    assert int(other.power.count) == 10
    assert criterion.double().power.power.dtype == torch.float64


def test_the_defaults_are_those_of_the_estimator():
    schedule = ours.PowerSchedule(10)
    known = schedule.start, schedule.end, schedule.fraction
    assert known == _defaults.POWER_SCHEDULE
    assert schedule.flattening == _defaults.FLATTENING
    assert schedule.coordinates == _defaults.SCHEDULED_COORDINATES


def test_share_is_another_name_of_fraction():
    by_name = ours.PowerSchedule(10, share=0.3)
    by_position = ours.PowerSchedule(10, 0.5, 0.0, 0.3)
    assert by_name.fraction == by_name.share == by_position.fraction == 0.3
    assert "fraction=0.3" in repr(by_name)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="total_steps must be at least 1"):
        ours.PowerSchedule(0)
    with pytest.raises(ValueError, match="fraction must be above 0"):
        ours.PowerSchedule(10, share=0.0)
    with pytest.raises(ValueError, match="start must lie between 0 and 1"):
        ours.PowerSchedule(10, start=2.0)
    with pytest.raises(ValueError, match="fraction must be above 0 and at most 1, got 2"):
        ours.PowerSchedule(10, share=2.0)
    with pytest.raises(ValueError, match="coordinates must be one of"):
        ours.PowerSchedule(10, coordinates="std")
