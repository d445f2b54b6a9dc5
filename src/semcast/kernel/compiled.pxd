# What the compiler is told beyond plain.py: where the fields of a message lie, which makes reading
# one a load instead of a search.  A msgspec.Struct keeps its fields in alphabetical order; size and
# order are checked when the module is imported, and the plain kernel runs if they are others.

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

cdef Py_ssize_t HEADER_BYTES, DISTANCE_BYTES, DEPENDENCY_BYTES

cdef Py_ssize_t _size(payload, name, covers, deps) except -1
