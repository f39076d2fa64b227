//go:build ignore

// This file lists the structs and constants of Vulkan that package vulkan uses. generate.sh runs cgo -godefs to
// generate structs.go from this file and from the header of Vulkan (Debian package libvulkan-dev).
package vulkan

// If VK_USE_64_BIT_PTR_DEFINES is 0, handles such as VkBuffer are 64-bit integers, not pointers, on all processors.

// #define VK_USE_64_BIT_PTR_DEFINES 0
// #include <vulkan/vulkan_core.h>
import "C"

type (
	applicationInfo                C.VkApplicationInfo
	instanceCreateInfo             C.VkInstanceCreateInfo
	deviceQueueCreateInfo          C.VkDeviceQueueCreateInfo
	deviceCreateInfo               C.VkDeviceCreateInfo
	physicalDeviceProperties       C.VkPhysicalDeviceProperties
	physicalDeviceLimits           C.VkPhysicalDeviceLimits
	physicalDeviceSparseProperties C.VkPhysicalDeviceSparseProperties
	conformanceVersion             C.VkConformanceVersion
	physicalDeviceFeatures         C.VkPhysicalDeviceFeatures
	memoryType                     C.VkMemoryType
	memoryHeap                     C.VkMemoryHeap
	extent3D                       C.VkExtent3D
	specializationInfo             C.VkSpecializationInfo
	specializationMapEntry         C.VkSpecializationMapEntry
	commandBufferInheritanceInfo   C.VkCommandBufferInheritanceInfo
	physicalDeviceProperties2      C.VkPhysicalDeviceProperties2
	physicalDeviceVulkan12Props    C.VkPhysicalDeviceVulkan12Properties
	physicalDeviceFeatures2        C.VkPhysicalDeviceFeatures2
	physicalDeviceVulkan11Features C.VkPhysicalDeviceVulkan11Features
	physicalDeviceVulkan12Features C.VkPhysicalDeviceVulkan12Features
	memoryProperties               C.VkPhysicalDeviceMemoryProperties
	queueFamilyProperties          C.VkQueueFamilyProperties
	bufferCreateInfo               C.VkBufferCreateInfo
	memoryRequirements             C.VkMemoryRequirements
	memoryAllocateInfo             C.VkMemoryAllocateInfo
	memoryAllocateFlagsInfo        C.VkMemoryAllocateFlagsInfo
	bufferDeviceAddressInfo        C.VkBufferDeviceAddressInfo
	shaderModuleCreateInfo         C.VkShaderModuleCreateInfo
	pushConstantRange              C.VkPushConstantRange
	pipelineLayoutCreateInfo       C.VkPipelineLayoutCreateInfo
	pipelineShaderStageCreateInfo  C.VkPipelineShaderStageCreateInfo
	computePipelineCreateInfo      C.VkComputePipelineCreateInfo
	commandPoolCreateInfo          C.VkCommandPoolCreateInfo
	commandBufferAllocateInfo      C.VkCommandBufferAllocateInfo
	commandBufferBeginInfo         C.VkCommandBufferBeginInfo
	memoryBarrier                  C.VkMemoryBarrier
	bufferCopy                     C.VkBufferCopy
	semaphoreTypeCreateInfo        C.VkSemaphoreTypeCreateInfo
	semaphoreCreateInfo            C.VkSemaphoreCreateInfo
	semaphoreWaitInfo              C.VkSemaphoreWaitInfo
	timelineSemaphoreSubmitInfo    C.VkTimelineSemaphoreSubmitInfo
	submitInfo                     C.VkSubmitInfo
)

// A constant s followed by the name of a struct is the structure type (VkStructureType) of that struct. Most other
// constants have a prefix for their C type, such as usage for VkBufferUsageFlagBits and access for VkAccessFlagBits.
const (
	sApplicationInfo                = C.VK_STRUCTURE_TYPE_APPLICATION_INFO
	sInstanceCreateInfo             = C.VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
	sDeviceQueueCreateInfo          = C.VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO
	sDeviceCreateInfo               = C.VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO
	sPhysicalDeviceProperties2      = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
	sPhysicalDeviceVulkan12Props    = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES
	sPhysicalDeviceFeatures2        = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
	sPhysicalDeviceVulkan11Features = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES
	sPhysicalDeviceVulkan12Features = C.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES
	sBufferCreateInfo               = C.VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO
	sMemoryAllocateInfo             = C.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO
	sMemoryAllocateFlagsInfo        = C.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO
	sBufferDeviceAddressInfo        = C.VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO
	sShaderModuleCreateInfo         = C.VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO
	sPipelineLayoutCreateInfo       = C.VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO
	sPipelineShaderStageCreateInfo  = C.VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO
	sComputePipelineCreateInfo      = C.VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO
	sCommandPoolCreateInfo          = C.VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO
	sCommandBufferAllocateInfo      = C.VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO
	sCommandBufferBeginInfo         = C.VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
	sMemoryBarrier                  = C.VK_STRUCTURE_TYPE_MEMORY_BARRIER
	sSemaphoreTypeCreateInfo        = C.VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO
	sSemaphoreCreateInfo            = C.VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO
	sSemaphoreWaitInfo              = C.VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO
	sTimelineSemaphoreSubmitInfo    = C.VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO
	sSubmitInfo                     = C.VK_STRUCTURE_TYPE_SUBMIT_INFO

	version12 = C.VK_API_VERSION_1_2

	queueCompute        = C.VK_QUEUE_COMPUTE_BIT
	usageTransferSrc    = C.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
	usageTransferDst    = C.VK_BUFFER_USAGE_TRANSFER_DST_BIT
	usageStorage        = C.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
	usageAddress        = C.VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT
	memoryDeviceLocal   = C.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
	memoryHostVisible   = C.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
	memoryHostCoherent  = C.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
	allocateAddress     = C.VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
	stageCompute        = C.VK_SHADER_STAGE_COMPUTE_BIT
	bindCompute         = C.VK_PIPELINE_BIND_POINT_COMPUTE
	levelPrimary        = C.VK_COMMAND_BUFFER_LEVEL_PRIMARY
	poolReset           = C.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
	oneTimeSubmit       = C.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
	semaphoreTimeline   = C.VK_SEMAPHORE_TYPE_TIMELINE
	pipelineCompute     = C.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
	pipelineTransfer    = C.VK_PIPELINE_STAGE_TRANSFER_BIT
	pipelineHost        = C.VK_PIPELINE_STAGE_HOST_BIT
	accessShaderRead    = C.VK_ACCESS_SHADER_READ_BIT
	accessShaderWrite   = C.VK_ACCESS_SHADER_WRITE_BIT
	accessTransferRead  = C.VK_ACCESS_TRANSFER_READ_BIT
	accessTransferWrite = C.VK_ACCESS_TRANSFER_WRITE_BIT
	accessHostRead      = C.VK_ACCESS_HOST_READ_BIT
	typeDiscrete        = C.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
	typeIntegrated      = C.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
	typeProcessor       = C.VK_PHYSICAL_DEVICE_TYPE_CPU
)
