// Metrics of devices: their queues, launches and memory, and the sensors of GPUs.
#pragma once

#include "server/admission/admission.h"
#include "server/observe/gpu_sensors.h"
#include "server/observe_http/metric_families.h"
#include "server/scheduling/router.h"

namespace gemmd {

void AddDevices(const Router& router, const Admission& admission, Families* families);
void AddGpus(const GpuSensors& sensors, Families* families);

}  // namespace gemmd
