//go:build (linux || darwin) && (amd64 || arm64)

package vulkan

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/gpu/spirv"
)

// This file implements the methods of device.Device: Alloc makes buffers, Compile makes a pipeline of a kernel, and Run
// executes steps. A buffer is passed to kernels by its address. For a kernel with two addresses, Run records these
// commands:
//
//	bind the pipeline; push 16 bytes of constants, the two addresses; dispatch the groups
//	barrier
//
// Vulkan functions are called by purego with the arguments of the C functions, in the same order. Functions that return
// a VkResult are called by call. In a call that creates or destroys an object, the argument pAllocator is 0, which
// selects the default allocator.

// createObjects creates the command buffer and the semaphore. family is the index of the queue family.
func (d *dev) createObjects(family uint32) error {
	poolInfo := commandPoolCreateInfo{SType: sCommandPoolCreateInfo, Flags: poolReset, QueueFamilyIndex: family}
	if err := call(d.api.CreateCommandPool, d.handle, uintptr(ptr(&poolInfo)), 0, uintptr(ptr(&d.pool))); err != nil {
		return err
	}
	commandsInfo := commandBufferAllocateInfo{SType: sCommandBufferAllocateInfo, CommandPool: d.pool,
		Level: levelPrimary, CommandBufferCount: 1}
	err := call(d.api.AllocateCommandBuffers, d.handle, uintptr(ptr(&commandsInfo)), uintptr(ptr(&d.commands)))
	if err != nil {
		return err
	}
	timelineInfo := semaphoreTypeCreateInfo{SType: sSemaphoreTypeCreateInfo, SemaphoreType: semaphoreTimeline}
	semaphoreInfo := semaphoreCreateInfo{SType: sSemaphoreCreateInfo, PNext: chain(&timelineInfo)}
	return call(d.api.CreateSemaphore, d.handle, uintptr(ptr(&semaphoreInfo)), 0, uintptr(ptr(&d.semaphore)))
}

// Close frees the objects of the device. The instance stays open for other devices.
func (d *dev) Close() {
	if d.handle == 0 {
		return
	}
	if d.semaphore != 0 {
		purego.SyscallN(d.api.DestroySemaphore, d.handle, uintptr(d.semaphore), 0)
	}
	if d.pool != 0 {
		purego.SyscallN(d.api.DestroyCommandPool, d.handle, uintptr(d.pool), 0)
	}
	if d.api.DestroyDevice != 0 { // 0 if open could not load the functions
		purego.SyscallN(d.api.DestroyDevice, d.handle, 0)
	}
	d.handle = 0
}

// Alloc implements device.Device.
func (d *dev) Alloc(bytes int, hostAccess bool) (_ *device.Buffer, err error) {
	if bytes < 1 {
		return nil, fmt.Errorf("vulkan: a buffer has %d bytes: want at least 1", bytes)
	}
	var buffer, memory uint64
	free := func() {
		purego.SyscallN(d.api.DestroyBuffer, d.handle, uintptr(buffer), 0)
		purego.SyscallN(d.api.FreeMemory, d.handle, uintptr(memory), 0)
		delete(d.buffers, buffer)
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	bufferInfo := bufferCreateInfo{SType: sBufferCreateInfo, Size: uint64(bytes),
		Usage: usageStorage | usageAddress | usageTransferSrc | usageTransferDst}
	if err := call(d.api.CreateBuffer, d.handle, uintptr(ptr(&bufferInfo)), 0, uintptr(ptr(&buffer))); err != nil {
		return nil, err
	}
	if memory, err = d.allocateMemory(buffer, hostAccess); err != nil {
		return nil, err
	}
	const memoryOffset = 0
	err = call(d.api.BindBufferMemory, d.handle, uintptr(buffer), uintptr(memory), memoryOffset)
	if err != nil {
		return nil, err
	}
	addressInfo := bufferDeviceAddressInfo{SType: sBufferDeviceAddressInfo, Buffer: buffer}
	address, _, _ := purego.SyscallN(d.api.GetBufferDeviceAddress, d.handle, uintptr(ptr(&addressInfo)))
	created := &device.Buffer{Address: uint64(address), Size: bytes, Free: free}
	if hostAccess {
		if created.Bytes, err = d.mapMemory(memory, bytes); err != nil {
			return nil, err
		}
	}
	d.buffers[buffer] = created
	return created, nil
}

// allocateMemory allocates the memory of a buffer.
func (d *dev) allocateMemory(buffer uint64, hostAccess bool) (memory uint64, err error) {
	var requirements memoryRequirements
	purego.SyscallN(d.api.GetBufferMemoryRequirements, d.handle, uintptr(buffer), uintptr(ptr(&requirements)))
	addressFlag := memoryAllocateFlagsInfo{SType: sMemoryAllocateFlagsInfo, Flags: allocateAddress}
	memoryInfo := memoryAllocateInfo{SType: sMemoryAllocateInfo, PNext: chain(&addressFlag),
		AllocationSize: requirements.Size}
	if memoryInfo.MemoryTypeIndex, err = d.memoryType(requirements.MemoryTypeBits, hostAccess); err != nil {
		return 0, err
	}
	err = call(d.api.AllocateMemory, d.handle, uintptr(ptr(&memoryInfo)), 0, uintptr(ptr(&memory)))
	return memory, err
}

// memoryType returns the index of the first allowed type of memory with the required property. If hostAccess is true,
// the host must have access to the memory; otherwise the memory must be the device's own. Bit k of allowed is set if
// type k is allowed.
func (d *dev) memoryType(allowed uint32, hostAccess bool) (uint32, error) {
	want := uint32(memoryDeviceLocal)
	if hostAccess {
		want = memoryHostVisible | memoryHostCoherent
	}
	for index, candidate := range d.memoryTypes {
		if allowed>>index&1 != 0 && candidate.PropertyFlags&want == want {
			return uint32(index), nil
		}
	}
	return 0, fmt.Errorf("vulkan: the device has no memory of the allowed types (bits %#x) with the properties %#x",
		allowed, want)
}

// mapMemory makes memory accessible to the host.
func (d *dev) mapMemory(memory uint64, bytes int) ([]byte, error) {
	var mapped unsafe.Pointer
	const offset, flags = 0, 0
	err := call(d.api.MapMemory, d.handle, uintptr(memory), offset, uintptr(bytes), flags, uintptr(ptr(&mapped)))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(mapped), bytes), nil
}

// kernel is a compiled kernel: a pipeline of Vulkan.
type kernel struct {
	owner            *dev
	pipeline, layout uint64
	params           int // number of parameters: addresses, which are passed as push constants
}

// Free frees the pipeline. No run may use it afterwards.
func (k *kernel) Free() {
	purego.SyscallN(k.owner.api.DestroyPipeline, k.owner.handle, uintptr(k.pipeline), 0)
	purego.SyscallN(k.owner.api.DestroyPipelineLayout, k.owner.handle, uintptr(k.layout), 0)
}

// Compile implements device.Device.
func (d *dev) Compile(source *ir.Kernel) (_ device.Kernel, err error) {
	if addressBytes*source.Params > d.maxPushBytes {
		return nil, fmt.Errorf("vulkan: the kernel has %d addresses of %d bytes: want at most %d bytes of push constants",
			source.Params, addressBytes, d.maxPushBytes)
	}
	words, err := spirv.Module(source, d.options)
	if err != nil {
		return nil, err
	}
	compiled := &kernel{owner: d, params: source.Params}
	defer func() {
		if err != nil {
			compiled.Free()
		}
	}()
	if compiled.layout, err = d.createLayout(source.Params); err != nil {
		return nil, err
	}
	if compiled.pipeline, err = d.createPipeline(words, compiled.layout); err != nil {
		return nil, err
	}
	return compiled, nil
}

// createLayout creates the layout of a pipeline with a number of addresses.
func (d *dev) createLayout(params int) (layout uint64, err error) {
	pushRange := pushConstantRange{StageFlags: stageCompute, Size: uint32(addressBytes * params)}
	layoutInfo := pipelineLayoutCreateInfo{SType: sPipelineLayoutCreateInfo}
	if params > 0 {
		layoutInfo.PushConstantRangeCount, layoutInfo.PPushConstantRanges = 1, &pushRange
	}
	err = call(d.api.CreatePipelineLayout, d.handle, uintptr(ptr(&layoutInfo)), 0, uintptr(ptr(&layout)))
	return layout, err
}

// createPipeline creates the pipeline of a module of SPIR-V.
func (d *dev) createPipeline(words []uint32, layout uint64) (pipeline uint64, err error) {
	var module uint64
	moduleInfo := shaderModuleCreateInfo{SType: sShaderModuleCreateInfo, CodeSize: uint64(4 * len(words)),
		PCode: &words[0]}
	if err := call(d.api.CreateShaderModule, d.handle, uintptr(ptr(&moduleInfo)), 0, uintptr(ptr(&module))); err != nil {
		return 0, err
	}
	entryName := []int8{'m', 'a', 'i', 'n', 0}
	pipelineInfo := computePipelineCreateInfo{SType: sComputePipelineCreateInfo, Layout: layout,
		BasePipelineIndex: -1, // no other pipeline is the base of this one
		Stage: pipelineShaderStageCreateInfo{SType: sPipelineShaderStageCreateInfo, Stage: stageCompute, Module: module,
			PName: &entryName[0]}}
	const cache, count = 0, 1 // no cache, one pipeline
	err = call(d.api.CreateComputePipelines, d.handle, cache, count, uintptr(ptr(&pipelineInfo)), 0,
		uintptr(ptr(&pipeline)))
	purego.SyscallN(d.api.DestroyShaderModule, d.handle, uintptr(module), 0)
	return pipeline, err
}

// Run implements device.Device. It records all steps in the command buffer, submits the buffer, and waits until the
// device has incremented the semaphore. A barrier before each step makes the step wait for all earlier steps.
func (d *dev) Run(steps []device.Step) error {
	beginInfo := commandBufferBeginInfo{SType: sCommandBufferBeginInfo, Flags: oneTimeSubmit}
	if err := call(d.api.BeginCommandBuffer, d.commands, uintptr(ptr(&beginInfo))); err != nil {
		return err
	}
	for i, step := range steps {
		if i > 0 {
			d.barrier(accessShaderRead|accessShaderWrite|accessTransferRead|accessTransferWrite,
				pipelineCompute|pipelineTransfer)
		}
		if err := d.record(step); err != nil {
			return errors.Join(err, call(d.api.EndCommandBuffer, d.commands))
		}
	}
	d.barrier(accessHostRead, pipelineHost)
	if err := call(d.api.EndCommandBuffer, d.commands); err != nil {
		return err
	}
	d.signaled++
	timelineInfo := timelineSemaphoreSubmitInfo{SType: sTimelineSemaphoreSubmitInfo, SignalSemaphoreValueCount: 1,
		PSignalSemaphoreValues: &d.signaled}
	submission := submitInfo{SType: sSubmitInfo, PNext: chain(&timelineInfo), CommandBufferCount: 1,
		PCommandBuffers: &d.commands, SignalSemaphoreCount: 1, PSignalSemaphores: &d.semaphore}
	const submissions, fence = 1, 0 // the semaphore replaces a fence
	if err := call(d.api.QueueSubmit, d.queue, submissions, uintptr(ptr(&submission)), fence); err != nil {
		return err
	}
	waitInfo := semaphoreWaitInfo{SType: sSemaphoreWaitInfo, SemaphoreCount: 1, PSemaphores: &d.semaphore,
		PValues: &d.signaled}
	return call(d.api.WaitSemaphores, d.handle, uintptr(ptr(&waitInfo)), math.MaxUint64)
}

// barrier makes the writes of earlier kernels and copies visible to later accesses of the given kinds. access has bits
// of VkAccessFlagBits, and stages has the pipeline stages of these accesses.
func (d *dev) barrier(access, stages uint32) {
	barrierInfo := memoryBarrier{SType: sMemoryBarrier, SrcAccessMask: accessShaderWrite | accessTransferWrite,
		DstAccessMask: access}
	const flags, memoryBarriers, bufferBarriers, imageBarriers = 0, 1, 0, 0
	purego.SyscallN(d.api.CmdPipelineBarrier, d.commands, pipelineCompute|pipelineTransfer, uintptr(stages), flags,
		memoryBarriers, uintptr(ptr(&barrierInfo)), bufferBarriers, 0, imageBarriers, 0)
}

// record adds a step to the command buffer, which Run submits.
func (d *dev) record(step device.Step) error {
	if step.Kernel == nil {
		from, to := d.handleOf(step.From), d.handleOf(step.To)
		if from == 0 || to == 0 || !step.CopyFits() {
			return errors.New("vulkan: a copy has a buffer of another device, or exceeds a buffer")
		}
		region := bufferCopy{SrcOffset: uint64(step.FromOffset), DstOffset: uint64(step.ToOffset), Size: uint64(step.Bytes)}
		const regions = 1
		purego.SyscallN(d.api.CmdCopyBuffer, d.commands, uintptr(from), uintptr(to), regions, uintptr(ptr(&region)))
		return nil
	}
	compiled, ok := step.Kernel.(*kernel)
	if !ok || compiled.owner != d || len(step.Addresses) != compiled.params || step.Groups < 1 {
		return errors.New("vulkan: a launch has a kernel of another device, a wrong number of addresses, or no groups")
	}
	purego.SyscallN(d.api.CmdBindPipeline, d.commands, bindCompute, uintptr(compiled.pipeline))
	if compiled.params > 0 {
		purego.SyscallN(d.api.CmdPushConstants, d.commands, uintptr(compiled.layout), stageCompute, 0,
			uintptr(addressBytes*compiled.params), uintptr(ptr(&step.Addresses[0])))
	}
	x, y := device.Grid(step.Groups)
	purego.SyscallN(d.api.CmdDispatch, d.commands, uintptr(x), uintptr(y), 1)
	return nil
}

// handleOf returns the handle of a buffer, or 0 if the buffer is not a buffer of the device.
func (d *dev) handleOf(buffer *device.Buffer) uint64 {
	for handle, candidate := range d.buffers {
		if candidate == buffer {
			return handle
		}
	}
	return 0
}
