# What the compiler is told beyond the sources: which numbers are C's, and where the fields of a
# message lie, which makes reading one a load instead of a search.  A msgspec.Struct keeps its
# fields in alphabetical order; size and order are checked when the module is imported, and the
# plain kernel runs if they are others.

cimport cython
from libc.stdint cimport int64_t

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *covers, *deps, *item, *keep, *name, *payload, *sender, *seq;
    } MessageStruct;

    typedef struct {
        PyObject_HEAD
        PyObject *item, *name, *never_purge, *obsoletes, *payload;
    } SubmissionStruct;
    """

cdef extern class semcast.terms.messages.Message [object MessageStruct, check_size error]:
    cdef readonly object covers, deps, item, keep, name, payload, sender, seq

cdef extern class semcast.terms.messages.Submission [object SubmissionStruct, check_size error]:
    cdef readonly object item, name, never_purge, obsoletes, payload

@cython.final
cdef class Reader:
    cdef bytes data
    cdef Py_ssize_t at, begun, payload, payload_end, name, name_end
    cdef int64_t sender, seq, item
    cdef bint has_item, keep
    cdef int message(self) except -1
    cdef int expect(self, int byte) except -1
    cdef int skip(self, int64_t length) except -1
    cdef int64_t integer(self) except? -1
    cdef int64_t number(self, int size, int64_t value) except? -1
    cdef int64_t count(self) except -1
    cdef int check_name(self) except -1
    @cython.locals(data="const char *")
    cdef str text(self)
    @cython.locals(data="const char *")
    cdef bytes body(self)

@cython.final
cdef class Batch:
    cdef readonly bytes data
    cdef readonly Py_ssize_t begin, end, count, payload_bytes
    cdef readonly object sender, first, safe
    cdef readonly bint is_tagged

cdef int NIL, FALSE, TRUE, BIN, UNSIGNED, SIGNED, STR, ARRAY, FEW, SHORT
cdef Py_ssize_t HEADER_BYTES, DISTANCE_BYTES, DEPENDENCY_BYTES, NAME_MAX

cdef Py_ssize_t _size(payload, name, covers, deps) except -1
