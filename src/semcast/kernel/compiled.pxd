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
        PyObject *after, *covers, *item, *name, *never_purge, *payload, *sender, *seq;
    } MessageStruct;

    typedef struct {
        PyObject_HEAD
        PyObject *item, *never_purge, *obsoletes, *payload;
    } UpdateStruct;
    """

cdef extern class semcast.terms.messages.DataMessage [object MessageStruct, check_size error]:
    cdef readonly object after, covers, item, name, never_purge, payload, sender, seq

cdef extern class semcast.terms.messages.Update [object UpdateStruct, check_size error]:
    cdef readonly object item, never_purge, obsoletes, payload

@cython.final
cdef class MessageReader:
    cdef bytes data
    cdef Py_ssize_t at, begun, item, payload, payload_end, name, name_end
    cdef int64_t sender, seq
    cdef bint has_item, keep
    cdef int message(self) except -1
    cdef int expect(self, int byte) except -1
    cdef int skip(self, int64_t length) except -1
    cdef int64_t integer(self) except? -1
    cdef int skip_integer(self) except -1
    cdef int64_t tag(self) except? -1
    cdef int64_t number(self, int size, int64_t value) except? -1
    cdef int64_t count(self) except -1
    cdef int check_name(self) except -1
    @cython.locals(data="const char *")
    cdef str text(self)
    @cython.locals(data="const char *")
    cdef bytes body(self)

@cython.final
cdef class Run:
    cdef readonly bytes data
    cdef readonly Py_ssize_t begin, end, count, payload_bytes
    cdef readonly object sender, first, after
    cdef readonly bint is_packed, is_plain, is_tagged
    cdef readonly list made
    cpdef tuple take_prefix(self, Py_ssize_t room, bint is_empty)

@cython.final
cdef class ItemLabels:
    cdef readonly dict older, recent
    cpdef tuple label(self, item)

@cython.final
cdef class MessageWriter:
    cdef bytearray buffer
    cdef Py_ssize_t at
    cdef int make_room(self, Py_ssize_t size) except -1
    @cython.locals(out="unsigned char *", given="const unsigned char *")
    cdef int copy(self, bytes data) except -1
    @cython.locals(out="unsigned char *")
    cdef int write_uint(self, int kind, int64_t value) except -1
    @cython.locals(out="unsigned char *")
    cdef int message(self, bytes head, int64_t seq, tuple label, bint keep, bytes payload) except -1

cdef int NIL, FALSE, TRUE, BIN, UNSIGNED, SIGNED, STR, ARRAY, FIXARRAY, FIXSTR
cdef Py_ssize_t HEADER_BYTES, DISTANCE_BYTES, DEPENDENCY_BYTES, NAME_MAX, MESSAGE_OVERHEAD_MAX

cdef Py_ssize_t _size(payload, name, covers, after) except -1

@cython.locals(head=bytes, label=tuple)
cpdef tuple pack_run(
    int64_t rank,
    int64_t seq,
    updates,
    ItemLabels labels,
    Py_ssize_t count_max,
    Py_ssize_t payload_max,
    Py_ssize_t size_max,
)
