// overlord._core: the native module. A list of registrations, nothing else.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "errors.h"

NB_MODULE(_core, m) {
  using namespace overlord::python;
  m.doc() = "Overlord's native engine. The public face is the package overlord.";
  m.attr("__version__") = OVERLORD_VERSION;
  m.attr("arrow_version") = OVERLORD_BUILD_ARROW_VERSION;
  m.def("set_leak_warnings", &nanobind::set_leak_warnings, nanobind::arg("value"),
        "Whether objects of this module that are alive when Python is gone are told on stderr.");
  bind_errors(m);
  bind_spec(m);
  bind_encoder_part(m);
  bind_batch(m);
  bind_plan(m);
  bind_plan_index(m);
  bind_plan_cost(m);
  bind_plan_order(m);
  bind_plan_hdp(m);
  bind_plan_balance(m);
  bind_plan_partition(m);
  bind_index(m);
  bind_index_columns(m);
  bind_callout(m);
  bind_transform_desk(m);
  bind_job(m);
  bind_media(m);
  bind_media_audio(m);
  bind_media_video(m);
  bind_media_encode(m);
  bind_journal(m);
  bind_node(m);
  bind_stored_files(m);
}
