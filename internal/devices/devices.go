// Package devices has the devices that are available to programs. Packages with drivers register the drivers. The main
// module has no drivers.
package devices

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/graph"
)

// Auto is the name of the first device that can be opened, or of the host if there is none.
const Auto = "auto"

// driver opens a device at the first use.
type driver struct {
	name string
	open func() (graph.Device, error)
}

var (
	mu      sync.Mutex
	drivers []driver
)

// Register adds a driver. Auto prefers drivers that were registered first. open is called at the first use.
func Register(name string, open func() (graph.Device, error)) {
	mu.Lock()
	defer mu.Unlock()
	drivers = append(drivers, driver{name, sync.OnceValues(open)})
}

// Names returns the names that [Open] accepts.
func Names() []string {
	mu.Lock()
	defer mu.Unlock()
	names := []string{graph.HostDevice}
	for _, known := range drivers {
		names = append(names, known.name)
	}
	return append(names, Auto)
}

// Open returns the device with a name. It returns nil for the host.
func Open(name string) (graph.Device, error) {
	list := registered()
	switch name {
	case "", graph.HostDevice:
		return nil, nil
	case Auto:
		for _, candidate := range list {
			if opened, err := candidate.open(); err == nil {
				return opened, nil
			}
		}
		return nil, nil
	}
	for _, candidate := range list {
		if candidate.name == name {
			return candidate.open()
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no device %q: %w", name, errNoDrivers)
	}
	return nil, fmt.Errorf("there is no device %q; want %s", name, strings.Join(Names(), ", "))
}

// WhyNone returns the errors of all drivers. They are the reasons why [Open] returns the host for the name Auto.
func WhyNone() string {
	list := registered()
	if len(list) == 0 {
		return errNoDrivers.Error()
	}
	var reasons []string
	for _, candidate := range list {
		if _, err := candidate.open(); err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %v", candidate.name, err))
		}
	}
	return strings.Join(reasons, "; ")
}

// registered returns a copy of the list of drivers.
func registered() []driver {
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(drivers)
}

var errNoDrivers = errors.New("this program has no drivers of devices; " +
	"import github.com/graphrun/graphrun/gpu, or use the command graphrun-gpu")
