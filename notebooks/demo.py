"""Execute the quickstart as if nobody watched, and print the report that it wrote."""

from datetime import UTC, datetime
from pathlib import Path

from execution import execute

import artifactflow_nb as af

HERE = Path(__file__).parent


def main() -> None:
    """Run the notebook; print its first report and where the results lie."""
    started = datetime.now(UTC)
    exported = execute(HERE / "01_quickstart.ipynb", HERE.parent / "build")
    with af.Workbench(data_dir=HERE / ".artifactflow") as wb:
        runs = wb.runs_df()
        first = runs.loc[runs["started_at"] >= started, "run_id"].iloc[0]
        print(wb.run(first).artifacts["research_report"].content)
    print(f"Executed notebook: {exported.notebook}")
    print(f"As a page:         {exported.html}")


if __name__ == "__main__":
    main()
