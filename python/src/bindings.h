// One bind function per file of this folder; module.cc calls them.
#pragma once

#include <nanobind/nanobind.h>

namespace overlord::python {

void bind_spec(nanobind::module_& module);
void bind_callout(nanobind::module_& module);
void bind_transform_desk(nanobind::module_& module);
void bind_encoder_part(nanobind::module_& module);
void bind_batch(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_plan_index(nanobind::module_& module);
void bind_plan_cost(nanobind::module_& module);
void bind_plan_order(nanobind::module_& module);
void bind_plan_hdp(nanobind::module_& module);
void bind_plan_balance(nanobind::module_& module);
void bind_plan_partition(nanobind::module_& module);
void bind_index(nanobind::module_& module);
void bind_index_columns(nanobind::module_& module);
void bind_job(nanobind::module_& module);
void bind_media(nanobind::module_& module);
void bind_media_audio(nanobind::module_& module);
void bind_media_video(nanobind::module_& module);
void bind_media_encode(nanobind::module_& module);
void bind_journal(nanobind::module_& module);
void bind_node(nanobind::module_& module);
void bind_stored_files(nanobind::module_& module);

}  // namespace overlord::python
