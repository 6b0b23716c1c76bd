"""pyarrow and pyspark without pandas, until somebody imports it."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from changefeed.startup import without_pandas
without_pandas()
without_pandas()
import pyarrow as pa
assert pa.array([1, None]).null_count == 1
assert "pandas" not in sys.modules
from importlib.util import find_spec
assert find_spec("pandas") is not None
assert "pandas" not in sys.modules
import pandas as pd
assert type(pd.__spec__.loader).__name__ == type(pd.__loader__).__name__ == "SourceFileLoader"
assert not any("changefeed" in type(finder).__module__ for finder in sys.meta_path)
array = pa.array(pd.Series([1.0, float("nan")]))
assert array.null_count == 1, "NaN of a Series is NULL: pyarrow has recognized the Series"
assert pa.table({"n": [1]}).to_pandas().shape == (1, 1)
"""


def test_pyarrow_uses_pandas_once_it_is_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_to_pandas_imports_it() -> None:
    code = CODE[: CODE.index("from importlib")] + "assert pa.table({'n': [1]}).to_pandas().shape == (1, 1)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_where_pandas_is_imported_already_nothing_changes() -> None:
    code = "import pandas, sys; before = list(sys.meta_path)\nfrom changefeed.startup import without_pandas as w; w()\n"
    ran = subprocess.run(
        [sys.executable, "-c", code + "assert sys.meta_path == before"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


CONVERTED = """
import sys
from changefeed.startup import spark_without_pandas
spark_without_pandas()
spark_without_pandas()
from pyspark.sql.types import StructType, NumpyArrayConverter, NumpyScalarConverter
from pyspark.sql.pandas.functions import pandas_udf
scalar, array = NumpyScalarConverter(), NumpyArrayConverter()
assert not any(converter.can_convert(value) for converter in (scalar, array) for value in ("text", 1, None, [1.5]))
assert pandas_udf(lambda batches: batches, StructType(), 207).evalType == 207  # as mapInArrow does
assert "pyspark.testing.utils" not in sys.modules
assert "pandas" not in sys.modules
import numpy as np
assert [scalar.can_convert(np.int64(3)), scalar.can_convert(np.array([1]))] == [True, False]
assert [array.can_convert(np.int64(3)), array.can_convert(np.array([1])), array.can_convert(np.eye(2))] == [False, True, False]
assert scalar.convert(np.int64(3), None) == 3
"""


def test_pyspark_converts_numpy_values_as_before() -> None:
    ran = subprocess.run([sys.executable, "-c", CONVERTED], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
