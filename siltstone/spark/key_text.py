"""The text of a key: that of Spark's ``CAST(key AS STRING)``, of which a segment's name is made."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy
import pyarrow
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    CalendarIntervalType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    YearMonthIntervalType,
)

from siltstone.core.errors import SettingsError
from siltstone.spark.session_zone import zone_offset

_STORED: Final[Mapping[type[DataType], pyarrow.DataType]] = {
    DateType: pyarrow.int32(),
    TimeType: pyarrow.int64(),
    TimestampType: pyarrow.int64(),
    TimestampNTZType: pyarrow.int64(),
    DayTimeIntervalType: pyarrow.int64(),
    YearMonthIntervalType: pyarrow.int32(),
    FloatType: pyarrow.int32(),
    DoubleType: pyarrow.int64(),
}
"""The types whose values are looked at as the numbers that Arrow stores."""

_MONTHS: Final = "month_interval"
_MICROS: Final = 1_000_000
_DAY_S: Final = 86_400


def check_key(name: str, kind: DataType) -> None:
    """Check that the values of a column can be told apart by their texts.

    Raises:
        SettingsError: they have none, or Spark holds some with different texts equal.
    """
    if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
        raise SettingsError(
            f"key column {name!r} is {kind.simpleString()}, of which texts are equal that differ; "
            "cast it to STRING COLLATE UTF8_BINARY, of lower(key) if need be"
        )
    if not isinstance(kind, (*_STORED, *_PLAIN, DecimalType, IntegralType)):
        raise SettingsError(
            f"key column {name!r} is {kind.simpleString()}, which has no text; cast it to STRING"
        )


def unpacked(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Give the batches that pyspark would, also where a column has intervals of months.

    It takes each out of a struct when it is asked for, and pyarrow, which has no type for these
    intervals, fails at that. Here they become numbers of months.
    """
    if not isinstance(batches, map):
        return batches
    arguments: Any = batches.__reduce__()[1]
    return map(_without_months, arguments[1])


def _without_months(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    struct = batch.column(0)
    months = pyarrow.field("", _STORED[YearMonthIntervalType])
    fields = [
        months.with_name(field.name) if str(field.type) == _MONTHS else field
        for field in struct.type
    ]
    arrays = struct.view(pyarrow.struct(fields)).flatten()
    return pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """A column of keys.

    Attributes:
        name: its name.
        kind: what Spark has there.
        ansi: whether the session casts as ANSI says: decimals without an exponent.
    """

    name: str
    kind: DataType
    ansi: bool = True

    def texts(self, batch: pyarrow.RecordBatch) -> tuple[list[str], pyarrow.Array]:
        """The different texts of some rows, and for each row which of them it has.

        Raises:
            ValueError: a key is null, or is no UTF-8.
            SettingsError: the time zone of the session is not known here.
        """
        values = _stored(batch, self.name, self.kind)
        if values.null_count:
            raise ValueError(f"a key in column {self.name!r} is null")
        encoded = values.dictionary_encode()
        text = self._text(batch)
        places: dict[str, int] = {}
        # Values with one text go to one segment, in the order of their rows.
        codes = [
            places.setdefault(text(value), len(places)) for value in encoded.dictionary.to_pylist()
        ]
        return list(places), pyarrow.array(codes, pyarrow.int32()).take(encoded.indices)

    def _text(self, batch: pyarrow.RecordBatch) -> Callable[[Any], str]:
        kind = self.kind
        if isinstance(kind, TimestampType):
            offset = zone_offset(batch.schema.field(self.name).type.tz)
            return lambda micros: _timestamp(micros + offset(micros // _MICROS) * _MICROS)
        if isinstance(kind, DecimalType):
            return _plain_decimal if self.ansi else str
        if isinstance(kind, DayTimeIntervalType):
            return partial(_day_time, kind.startField, kind.endField)
        if isinstance(kind, YearMonthIntervalType):
            return partial(_year_month, kind.startField, kind.endField)
        return next((text for known, text in _PLAIN.items() if isinstance(kind, known)), str)


def _stored(batch: pyarrow.RecordBatch, name: str, kind: DataType) -> pyarrow.Array:
    """The values as Arrow stores them; pyarrow itself has no type for intervals of months."""
    if type(kind) not in _STORED:
        return batch.column(name)
    # To look at a struct as another type works for a field whose own type pyarrow does not know.
    wanted = pyarrow.struct([pyarrow.field(name, _STORED[type(kind)])])
    return batch.select([name]).to_struct_array().view(wanted).field(0)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ValueError("a key is no UTF-8, and a name of a segment is") from error


def _plain_decimal(value: Decimal) -> str:
    return format(value, "f")


def _double(bits: int) -> str:
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return _floating(numpy.float64(value))


def _float(bits: int) -> str:
    (value,) = struct.unpack("<f", struct.pack("<i", bits))
    return _floating(numpy.float32(value))


def _floating(value: numpy.floating[Any]) -> str:
    """What ``toString`` of Java 19 and later gives: the shortest text that leads back."""
    if not numpy.isfinite(value):
        return "NaN" if numpy.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    short = numpy.format_float_scientific(value, unique=True, trim="-")
    if "." not in short:
        # Java has two digits at least, and those that are closest.
        two = f"{float(value):.1e}"
        short = two if type(value)(two) == value else short
    digits, exponent = short.split("e")
    sign = "-" if digits.startswith("-") else ""
    number = Decimal(digits).copy_abs()
    if value != 0 and not 1e-3 <= abs(float(value)) < 1e7:
        text = format(number, "f")
        return f"{sign}{text if '.' in text else text + '.0'}E{int(exponent)}"
    text = format(number.scaleb(int(exponent)), "f")
    return sign + (text if "." in text else text + ".0")


def _fraction(number: int, digits: int) -> str:
    """A decimal fraction of this many digits, without zeros at its end, and its point."""
    text = f"{number:0{digits}d}".rstrip("0")
    return f".{text}" if text else ""


def _date(days: int) -> str:
    """The day that is ``days`` after 1970-01-01, in the Gregorian calendar of all times."""
    era, day = divmod(days + 719_468, 146_097)
    of_era = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * of_era + of_era // 4 - of_era // 100)
    month = (5 * of_year + 2) // 153  # from March on, so that leap days stand last
    year = era * 400 + of_era + (month >= 10)
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    number = month + 3 if month < 10 else month - 9
    return f"{sign}{abs(year):04d}-{number:02d}-{of_year - (153 * month + 2) // 5 + 1:02d}"


def _timestamp(micros: int) -> str:
    seconds, rest = divmod(micros, _MICROS)
    days, of_day = divmod(seconds, _DAY_S)
    return f"{_date(days)} {_clock(of_day)}{_fraction(rest, 6)}"


def _time(nanos: int) -> str:
    seconds, rest = divmod(nanos, 1_000 * _MICROS)
    return _clock(seconds) + _fraction(rest, 9)


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _day_time(first: int, last: int, micros: int) -> str:
    """``INTERVAL '1 02:03:04.5' DAY TO SECOND``, with the fields that the type has."""
    parts = []
    rest = abs(micros)
    for number, (unit_s, format_) in enumerate(
        ((_DAY_S, "{}"), (3600, " {:02d}"), (60, ":{:02d}"), (1, ":{:02d}"))
    ):
        if first <= number <= last:
            count, rest = divmod(rest, unit_s * _MICROS)
            parts.append(format_.format(count))
    if last == DayTimeIntervalType.SECOND:
        parts.append(_fraction(rest, 6))
    text = "".join(parts).lstrip(" :")
    names = [DayTimeIntervalType._fields[field].upper() for field in dict.fromkeys((first, last))]
    return f"INTERVAL '{'-' if micros < 0 else ''}{text}' {' TO '.join(names)}"


def _year_month(first: int, last: int, months: int) -> str:
    """``INTERVAL '1-2' YEAR TO MONTH``, with the fields that the type has."""
    years, rest = divmod(abs(months), 12)
    text = f"{years}-{rest}" if first < last else str(years if first == 0 else abs(months))
    names = [YearMonthIntervalType._fields[field].upper() for field in dict.fromkeys((first, last))]
    return f"INTERVAL '{'-' if months < 0 else ''}{text}' {' TO '.join(names)}"


def _calendar_interval(value: pyarrow.MonthDayNano) -> str:
    """``1 years 2 months 3 days 4 hours``: each unit with its own sign, and without those of 0."""
    micros = int(value.nanoseconds / 1_000)
    parts = []
    for number, *units in (
        (value.months, (12, "years"), (1, "months")),
        (value.days, (1, "days")),
        (micros, (3600 * _MICROS, "hours"), (60 * _MICROS, "minutes")),
    ):
        sign, rest = (-1 if number < 0 else 1), abs(number)
        for size, name in units:
            count, rest = divmod(rest, size)
            parts += [f"{sign * count} {name}"] if count else []
    seconds, fraction = divmod(abs(micros) % (60 * _MICROS), _MICROS)
    if seconds or fraction:
        parts.append(f"{'-' if micros < 0 else ''}{seconds}{_fraction(fraction, 6)} seconds")
    return " ".join(parts) or "0 seconds"


_PLAIN: Final[Mapping[type[DataType], Callable[[Any], str]]] = {
    StringType: str,
    CharType: str,
    VarcharType: str,
    BinaryType: _decoded,
    BooleanType: {False: "false", True: "true"}.__getitem__,
    FloatType: _float,
    DoubleType: _double,
    DateType: _date,
    TimeType: _time,
    TimestampNTZType: _timestamp,
    CalendarIntervalType: _calendar_interval,
}
"""The types whose text depends on the value alone."""
