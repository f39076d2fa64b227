//go:build linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/graphrun/graphrun/gpu/internal/cuda"
	"github.com/graphrun/graphrun/gpu/internal/devicetest"
)

func TestExpressions(t *testing.T) { devicetest.Expressions(t, cuda.Open) }

func TestCopies(t *testing.T) { devicetest.Copies(t, cuda.Open) }

func TestCalls(t *testing.T) { devicetest.Calls(t, cuda.Open) }
