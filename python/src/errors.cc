#include "errors.h"

#include <array>
#include <string>

namespace nb = nanobind;

namespace overlord::python {
namespace {

struct ErrorType {
  Code code;
  const char* name;
  PyObject* base;
  PyObject* type;
};

// One row per code; filled when the module is imported and alive as long as the interpreter is.
std::array<ErrorType, 14>& error_types() {
  static std::array<ErrorType, 14> types = {{
      {Code::kInvalidArgument, "InvalidArgumentError", PyExc_ValueError, nullptr},
      {Code::kNotFound, "NotFoundError", PyExc_FileNotFoundError, nullptr},
      {Code::kOutOfRange, "OutOfRangeError", PyExc_IndexError, nullptr},
      {Code::kBadData, "BadDataError", PyExc_ValueError, nullptr},
      {Code::kSourceChanged, "SourceChangedError", PyExc_RuntimeError, nullptr},
      {Code::kBudgetExceeded, "BudgetExceededError", PyExc_RuntimeError, nullptr},
      {Code::kStateMismatch, "StateMismatchError", PyExc_ValueError, nullptr},
      {Code::kVersionMismatch, "VersionMismatchError", PyExc_ValueError, nullptr},
      {Code::kResource, "ResourceError", PyExc_OSError, nullptr},
      {Code::kUnavailable, "UnavailableError", PyExc_ConnectionError, nullptr},
      {Code::kDeadline, "DeadlineError", PyExc_TimeoutError, nullptr},
      {Code::kCancelled, "CancelledError", PyExc_InterruptedError, nullptr},
      {Code::kUserFunction, "UserFunctionError", PyExc_RuntimeError, nullptr},
      {Code::kInternal, "InternalError", PyExc_RuntimeError, nullptr},
  }};
  return types;
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::object base = nb::steal(PyErr_NewExceptionWithDoc(
      "overlord.OverlordError", "Base of every error Overlord raises.", PyExc_Exception, nullptr));
  module.attr("OverlordError") = base;
  for (ErrorType& error : error_types()) {
    nb::tuple bases = nb::make_tuple(base, nb::borrow(error.base));
    const std::string full = std::string("overlord.") + error.name;
    error.type = PyErr_NewException(full.c_str(), bases.ptr(), nullptr);
    module.attr(error.name) = nb::borrow(error.type);
  }
}

Code code_named(const std::string& name) {
  for (const ErrorType& error : error_types()) {
    if (error.name == name) return error.code;
  }
  return Code::kInternal;
}

void raise(const Status& status) {
  PyObject* type = PyExc_RuntimeError;
  for (const ErrorType& error : error_types()) {
    if (error.code == status.code()) type = error.type;
  }
  // A message may quote bytes of a file; whatever is not UTF-8 is shown escaped.
  const std::string& text = status.message();
  nb::object message = nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  PyErr_SetObject(type, message.ptr());
  throw nb::python_error();
}

}  // namespace overlord::python
