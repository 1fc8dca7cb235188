"""A study of 10,000 cells on 100 simulated workers that die, at an endpoint with a limit."""

from pathlib import Path

from support.simulated_cluster import simulated_study

import artifactflow_nb as af

N_CELLS = 10_000
N_WORKERS = 100
PER_WORKER = 8


def test_workers_that_die_cost_a_turn_each_and_never_a_cell(tmp_path: Path) -> None:
    """The rates of the workers together keep the limit of the endpoint, and the study takes little more than needed."""
    limit = N_WORKERS * PER_WORKER
    with simulated_study(
        tmp_path, N_CELLS, N_WORKERS, limit=limit, rate=af.Rate(requests=PER_WORKER), deaths_per_hour=600
    ) as simulation:
        frame = simulation.study.df
    cluster, endpoint = simulation.cluster, simulation.endpoint
    assert set(frame["state"]) == {"done"}
    assert frame["run_id"].nunique() == N_CELLS
    assert cluster.n_deaths > N_WORKERS / 2
    assert cluster.n_lost > 10
    assert endpoint.most <= limit
    assert endpoint.n_refused == 0
    n_failed = endpoint.n_requests - cluster.n_turns - cluster.n_lost
    assert 0 < n_failed < N_CELLS / 100  # the endpoint fails with two of 1,000 requests
    assert simulation.bound_s < simulation.makespan_s < 1.4 * simulation.bound_s


def test_endpoint_that_fails_often_makes_cells_repeat_and_fail(tmp_path: Path) -> None:
    """A turn has retries of its own, then the cell has further attempts; each attempt is a run that was paid for."""
    with simulated_study(
        tmp_path, 1_000, 20, limit=10_000, rate=af.Rate(requests=10_000), deaths_per_hour=0, away=0.7
    ) as simulation:
        frame = simulation.study.df
    assert frame["attempts"].max() == 3
    failed = frame[frame["state"] == "failed"]
    assert set(frame["state"]) == {"done", "failed"}
    assert set(failed["attempts"]) == {3}
    assert simulation.cluster.n_runs == frame["attempts"].sum()
