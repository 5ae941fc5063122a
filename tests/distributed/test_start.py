"""Which of several processes this one is."""

import pytest

from ngem.distributed import Place, find_place

SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}


def test_variables_of_schedulers():
    assert find_place(SLURM) == Place(3, 4)
    assert find_place({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}) == Place(0, 2)
    ours = {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "a:1"}
    assert find_place({**SLURM, **ours}) == Place(1, 2, "a:1")
    assert find_place(SLURM | {"SLURM_PROCID": "0"}).is_first
    assert not find_place(SLURM).is_first


def test_a_place_that_cannot_be():
    with pytest.raises(ValueError, match="SLURM_PROCID must be from 0 to SLURM_NTASKS - 1, got 4"):
        find_place(SLURM | {"SLURM_PROCID": "4"})
    with pytest.raises(ValueError, match=r"got none of them\. Start processes with srun"):
        find_place({})
