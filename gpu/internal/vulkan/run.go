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

// createObjects creates the command buffer and the semaphore.
func (d *dev) createObjects(family uint32) error {
	pool := commandPoolCreateInfo{SType: sCommandPoolCreateInfo, Flags: poolReset, QueueFamilyIndex: family}
	if err := call(d.api.CreateCommandPool, d.handle, uintptr(ptr(&pool)), 0, uintptr(ptr(&d.pool))); err != nil {
		return err
	}
	buffer := commandBufferAllocateInfo{SType: sCommandBufferAllocateInfo, CommandPool: d.pool, Level: levelPrimary,
		CommandBufferCount: 1}
	err := call(d.api.AllocateCommandBuffers, d.handle, uintptr(ptr(&buffer)), uintptr(ptr(&d.commands)))
	if err != nil {
		return err
	}
	timeline := semaphoreTypeCreateInfo{SType: sSemaphoreTypeCreateInfo, SemaphoreType: semaphoreTimeline}
	semaphore := semaphoreCreateInfo{SType: sSemaphoreCreateInfo, PNext: chain(&timeline)}
	return call(d.api.CreateSemaphore, d.handle, uintptr(ptr(&semaphore)), 0, uintptr(ptr(&d.semaphore)))
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
	if d.api.DestroyDevice != 0 {
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
	info := bufferCreateInfo{SType: sBufferCreateInfo, Size: uint64(bytes),
		Usage: usageStorage | usageAddress | usageTransferSrc | usageTransferDst}
	if err := call(d.api.CreateBuffer, d.handle, uintptr(ptr(&info)), 0, uintptr(ptr(&buffer))); err != nil {
		return nil, err
	}
	var need memoryRequirements
	purego.SyscallN(d.api.GetBufferMemoryRequirements, d.handle, uintptr(buffer), uintptr(ptr(&need)))
	flags := memoryAllocateFlagsInfo{SType: sMemoryAllocateFlagsInfo, Flags: allocateAddress}
	allocate := memoryAllocateInfo{SType: sMemoryAllocateInfo, PNext: chain(&flags), AllocationSize: need.Size}
	if allocate.MemoryTypeIndex, err = d.memoryType(need.MemoryTypeBits, hostAccess); err != nil {
		return nil, err
	}
	if err := call(d.api.AllocateMemory, d.handle, uintptr(ptr(&allocate)), 0, uintptr(ptr(&memory))); err != nil {
		return nil, err
	}
	if err := call(d.api.BindBufferMemory, d.handle, uintptr(buffer), uintptr(memory), 0); err != nil {
		return nil, err
	}
	address := bufferDeviceAddressInfo{SType: sBufferDeviceAddressInfo, Buffer: buffer}
	at, _, _ := purego.SyscallN(d.api.GetBufferDeviceAddress, d.handle, uintptr(ptr(&address)))
	b := &device.Buffer{Address: uint64(at), Size: bytes, Free: free}
	if hostAccess {
		var mapped unsafe.Pointer
		err := call(d.api.MapMemory, d.handle, uintptr(memory), 0, uintptr(bytes), 0, uintptr(ptr(&mapped)))
		if err != nil {
			return nil, err
		}
		b.Bytes = unsafe.Slice((*byte)(mapped), bytes)
	}
	d.buffers[buffer] = b
	return b, nil
}

// memoryType returns the index of the first allowed type of memory that is local to the device or, if hostAccess is
// true, that the host can access. allowed has a bit for each type.
func (d *dev) memoryType(allowed uint32, hostAccess bool) (uint32, error) {
	want := uint32(memoryDeviceLocal)
	if hostAccess {
		want = memoryHostVisible | memoryHostCoherent
	}
	for k, t := range d.types {
		if allowed>>k&1 != 0 && t.PropertyFlags&want == want {
			return uint32(k), nil
		}
	}
	return 0, fmt.Errorf("vulkan: the device has no memory of the allowed types (bits %#x) with the properties %#x",
		allowed, want)
}

// kernel is a compiled kernel: a pipeline of Vulkan.
type kernel struct {
	d                *dev
	pipeline, layout uint64
	params           int // number of addresses
}

// Free frees the pipeline. No run may use it afterwards.
func (k *kernel) Free() {
	purego.SyscallN(k.d.api.DestroyPipeline, k.d.handle, uintptr(k.pipeline), 0)
	purego.SyscallN(k.d.api.DestroyPipelineLayout, k.d.handle, uintptr(k.layout), 0)
}

// Compile implements device.Device.
func (d *dev) Compile(kir *ir.Kernel) (_ device.Kernel, err error) {
	if 8*kir.Params > d.maxPush {
		return nil, fmt.Errorf("vulkan: %d addresses exceed the %d bytes of push constants", kir.Params, d.maxPush)
	}
	words, err := spirv.Module(kir, d.options)
	if err != nil {
		return nil, err
	}
	k := &kernel{d: d, params: kir.Params}
	defer func() {
		if err != nil {
			k.Free()
		}
	}()
	push := pushConstantRange{StageFlags: stageCompute, Size: uint32(8 * kir.Params)}
	layout := pipelineLayoutCreateInfo{SType: sPipelineLayoutCreateInfo}
	if kir.Params > 0 {
		layout.PushConstantRangeCount, layout.PPushConstantRanges = 1, &push
	}
	if err := call(d.api.CreatePipelineLayout, d.handle, uintptr(ptr(&layout)), 0, uintptr(ptr(&k.layout))); err != nil {
		return nil, err
	}
	var module uint64
	shader := shaderModuleCreateInfo{SType: sShaderModuleCreateInfo, CodeSize: uint64(4 * len(words)), PCode: &words[0]}
	if err := call(d.api.CreateShaderModule, d.handle, uintptr(ptr(&shader)), 0, uintptr(ptr(&module))); err != nil {
		return nil, err
	}
	name := []int8{'m', 'a', 'i', 'n', 0}
	pipeline := computePipelineCreateInfo{SType: sComputePipelineCreateInfo, Layout: k.layout, BasePipelineIndex: -1,
		Stage: pipelineShaderStageCreateInfo{SType: sPipelineShaderStageCreateInfo, Stage: stageCompute, Module: module,
			PName: &name[0]}}
	err = call(d.api.CreateComputePipelines, d.handle, 0, 1, uintptr(ptr(&pipeline)), 0, uintptr(ptr(&k.pipeline)))
	purego.SyscallN(d.api.DestroyShaderModule, d.handle, uintptr(module), 0)
	return k, err
}

// Run implements device.Device.
func (d *dev) Run(steps []device.Step) error {
	begin := commandBufferBeginInfo{SType: sCommandBufferBeginInfo, Flags: oneTimeSubmit}
	if err := call(d.api.BeginCommandBuffer, d.commands, uintptr(ptr(&begin))); err != nil {
		return err
	}
	for k, s := range steps {
		if k > 0 {
			d.barrier(accessShaderRead|accessShaderWrite|accessTransferRead|accessTransferWrite,
				pipelineCompute|pipelineTransfer)
		}
		if err := d.record(s); err != nil {
			return errors.Join(err, call(d.api.EndCommandBuffer, d.commands))
		}
	}
	d.barrier(accessHostRead, pipelineHost)
	if err := call(d.api.EndCommandBuffer, d.commands); err != nil {
		return err
	}
	d.signaled++
	timeline := timelineSemaphoreSubmitInfo{SType: sTimelineSemaphoreSubmitInfo, SignalSemaphoreValueCount: 1,
		PSignalSemaphoreValues: &d.signaled}
	submit := submitInfo{SType: sSubmitInfo, PNext: chain(&timeline), CommandBufferCount: 1,
		PCommandBuffers: &d.commands, SignalSemaphoreCount: 1, PSignalSemaphores: &d.semaphore}
	if err := call(d.api.QueueSubmit, d.queue, 1, uintptr(ptr(&submit)), 0); err != nil {
		return err
	}
	wait := semaphoreWaitInfo{SType: sSemaphoreWaitInfo, SemaphoreCount: 1, PSemaphores: &d.semaphore,
		PValues: &d.signaled}
	return call(d.api.WaitSemaphores, d.handle, uintptr(ptr(&wait)), math.MaxUint64)
}

// barrier makes earlier writes available to later accesses.
func (d *dev) barrier(access, stages uint32) {
	b := memoryBarrier{SType: sMemoryBarrier, SrcAccessMask: accessShaderWrite | accessTransferWrite,
		DstAccessMask: access}
	purego.SyscallN(d.api.CmdPipelineBarrier, d.commands, pipelineCompute|pipelineTransfer, uintptr(stages), 0, 1,
		uintptr(ptr(&b)), 0, 0, 0, 0)
}

// record adds a step to the command buffer, which Run submits.
func (d *dev) record(s device.Step) error {
	if s.Kernel == nil {
		from, to := d.handleOf(s.From), d.handleOf(s.To)
		if from == 0 || to == 0 || !s.CopyFits() {
			return errors.New("vulkan: a copy has a buffer of another device, or exceeds a buffer")
		}
		region := bufferCopy{SrcOffset: uint64(s.FromAt), DstOffset: uint64(s.ToAt), Size: uint64(s.Bytes)}
		purego.SyscallN(d.api.CmdCopyBuffer, d.commands, uintptr(from), uintptr(to), 1, uintptr(ptr(&region)))
		return nil
	}
	k, ok := s.Kernel.(*kernel)
	if !ok || k.d != d || len(s.Addresses) != k.params || s.Groups < 1 {
		return errors.New("vulkan: a launch has a kernel of another device, a wrong number of addresses, or no groups")
	}
	purego.SyscallN(d.api.CmdBindPipeline, d.commands, bindCompute, uintptr(k.pipeline))
	if k.params > 0 {
		purego.SyscallN(d.api.CmdPushConstants, d.commands, uintptr(k.layout), stageCompute, 0, uintptr(8*k.params),
			uintptr(ptr(&s.Addresses[0])))
	}
	x, y := device.Grid(s.Groups)
	purego.SyscallN(d.api.CmdDispatch, d.commands, uintptr(x), uintptr(y), 1)
	return nil
}

// handleOf returns the handle of a buffer, or 0 if the buffer is not a buffer of the device.
func (d *dev) handleOf(b *device.Buffer) uint64 {
	for h, other := range d.buffers {
		if other == b {
			return h
		}
	}
	return 0
}
