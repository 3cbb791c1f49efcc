// Structs of the engine as plain values of Python and back, by their one list of fields
// (base/fields.h): a struct is a dict, an enumeration the name of its value.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "errors.h"
#include "overlord/base/enum_names.h"
#include "overlord/base/fields.h"
#include "overlord/model/cost_model.h"

namespace overlord::python {

// Coefficients that are not there are 0.
model::CostModel cost_model_of(const nanobind::dict& data);

template <typename T>
struct PythonValue {  // of whatever nanobind knows
  static T of(const T& value) { return value; }
  static void read(nanobind::handle from, const std::string& where, T* out) {
    if (nanobind::try_cast(from, *out)) return;
    raise(invalid_argument(where + ": wrong type or out of range, got " +
                           nanobind::cast<std::string>(nanobind::repr(from))));
  }
};

template <typename T>
auto python_value(const T& value) {
  return PythonValue<T>::of(value);
}

// What a role counted stands beside the rest of its status.
template <Listed T>
void put_fields(const T& value, nanobind::dict* out) {
  for_each_field(value, [&](std::string_view name, const auto& field) {
    if constexpr (Listed<std::remove_cvref_t<decltype(field)>>) {
      if (name == "counts") return put_fields(field, out);
    }
    (*out)[nanobind::str(name.data(), name.size())] = python_value(field);
  });
}

// A dict with exactly the keys of the list. None stands for what the engine has by default.
template <Listed T>
void read_fields(nanobind::handle from, const std::string& where, T* out) {
  nanobind::dict values;
  if (!nanobind::try_cast(from, values)) raise(invalid_argument(where + ": not a dict"));
  size_t known = 0;
  for_each_field(*out, [&](std::string_view name, auto& field) {
    const std::string key(name);
    if (!values.contains(key.c_str())) raise(invalid_argument(where + ": " + key + " is missing"));
    ++known;
    const nanobind::object value = values[key.c_str()];
    using Field = std::remove_reference_t<decltype(field)>;
    if (!value.is_none()) PythonValue<Field>::read(value, where + "." + key, &field);
  });
  if (known == values.size()) return;
  for (const auto& [key, value] : values) {
    const auto text = nanobind::cast<std::string>(nanobind::str(key));
    if ((", " + std::string(T::kFieldNames) + ",").find(", " + text + ",") == std::string::npos) {
      raise(invalid_argument(where + ": there is no " + text));
    }
  }
}

template <typename T>
  requires std::is_enum_v<T>
struct PythonValue<T> {
  static std::string of(T value) { return enum_name(value); }
  static void read(nanobind::handle from, const std::string& where, T* out) {
    std::string name;
    PythonValue<std::string>::read(from, where, &name);
    *out = unwrap(enum_of<T>(name, where));
  }
};

template <Listed T>
struct PythonValue<T> {
  static nanobind::dict of(const T& value) {
    nanobind::dict out;
    put_fields(value, &out);
    return out;
  }
  static void read(nanobind::handle from, const std::string& where, T* out) {
    if constexpr (std::is_same_v<T, model::CostModel>) {
      *out = cost_model_of(nanobind::cast<nanobind::dict>(from));
      check(model::check_cost_model(*out));
    } else if (!nanobind::try_cast(from, *out)) {  // one that is bound as it is
      read_fields(from, where, out);
    }
  }
};

template <typename T>
struct PythonValue<std::optional<T>> {
  static auto of(const std::optional<T>& value) {
    using Made = decltype(python_value(std::declval<const T&>()));
    return value ? std::optional<Made>(python_value(*value)) : std::nullopt;
  }
  static void read(nanobind::handle from, const std::string& where, std::optional<T>* out) {
    PythonValue<T>::read(from, where, &out->emplace());
  }
};

template <typename T>
  requires(Listed<T> || std::is_enum_v<T>)
struct PythonValue<std::vector<T>> {
  static nanobind::list of(const std::vector<T>& values) {
    nanobind::list out;
    for (const T& value : values) out.append(python_value(value));
    return out;
  }
  static void read(nanobind::handle from, const std::string& where, std::vector<T>* out) {
    out->clear();
    for (const nanobind::handle item : from) {
      const std::string place = where + "[" + std::to_string(out->size()) + "]";
      PythonValue<T>::read(item, place, &out->emplace_back());
    }
  }
};

template <Listed T>
nanobind::dict dict_of(const T& value) {
  return python_value(value);
}

template <Listed T>
inline constexpr size_t kFieldCount =
    1 + std::count(T::kFieldNames.begin(), T::kFieldNames.end(), ',');

// A class that is made of a dict (without one: with the engine's defaults), whose fields can be
// read, and whose FIELDS are their names.
template <Listed T>
nanobind::class_<T> bind_fields(nanobind::module_& m, const char* name, const char* doc) {
  namespace nb = nanobind;
  nb::class_<T> bound(m, name, doc);
  const std::string where = name;
  bound.def(
      "__init__",
      [where](T* self, const std::optional<nb::dict>& values) {
        T made;
        if (values) read_fields(*values, where, &made);
        new (self) T(std::move(made));
      },
      nb::arg("values") = nb::none());
  nb::list names;
  std::string_view rest = T::kFieldNames;
  const auto bind_one = [&]<typename Field>(Field getter) {
    const std::string own(next_field_name(&rest));
    bound.def_prop_ro(own.c_str(), getter);
    names.append(own);
  };
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (bind_one([](const T& value) {
       return value.visit_fields([](const auto&... fields) {
         return python_value(std::get<kIndex>(std::tie(fields...)));
       });
     }),
     ...);
  }(std::make_index_sequence<kFieldCount<T>>());
  bound.attr("FIELDS") = nb::tuple(names);
  return bound;
}

}  // namespace overlord::python
