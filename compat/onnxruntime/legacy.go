package onnxruntime_go

import (
	"errors"
	"fmt"
)

// Session is an [AdvancedSession] whose values have the same type, for old programs.
type Session[T TensorData] struct{ s *AdvancedSession }

// NewSession returns a session of the model in a file.
func NewSession[T TensorData](onnxFilePath string, inputNames, outputNames []string, inputs,
	outputs []*Tensor[T]) (*Session[T], error) {
	s, err := NewAdvancedSession(onnxFilePath, inputNames, outputNames, valuesOf(inputs), valuesOf(outputs), nil)
	if err != nil {
		return nil, err
	}
	return &Session[T]{s}, nil
}

// NewSessionWithONNXData returns a session of a model.
func NewSessionWithONNXData[T TensorData](onnxData []byte, inputNames, outputNames []string, inputs,
	outputs []*Tensor[T]) (*Session[T], error) {
	s, err := NewAdvancedSessionWithONNXData(onnxData, inputNames, outputNames, valuesOf(inputs), valuesOf(outputs), nil)
	if err != nil {
		return nil, err
	}
	return &Session[T]{s}, nil
}

// Run runs the model.
func (s *Session[T]) Run() error { return s.s.Run() }

// Destroy frees the session.
func (s *Session[_]) Destroy() error { return s.s.Destroy() }

func valuesOf[T TensorData](tensors []*Tensor[T]) []Value {
	values := make([]Value, len(tensors))
	for i, t := range tensors {
		if t != nil {
			values[i] = t
		}
	}
	return values
}

// DynamicSession is a [DynamicAdvancedSession] whose inputs have the same type, and whose outputs have the same type,
// for old programs.
type DynamicSession[In TensorData, Out TensorData] struct{ s *DynamicAdvancedSession }

// NewDynamicSession returns a session of the model in a file.
func NewDynamicSession[in TensorData, out TensorData](onnxFilePath string, inputNames,
	outputNames []string) (*DynamicSession[in, out], error) {
	s, err := NewDynamicAdvancedSession(onnxFilePath, inputNames, outputNames, nil)
	if err != nil {
		return nil, err
	}
	return &DynamicSession[in, out]{s}, nil
}

// NewDynamicSessionWithONNXData returns a session of a model.
func NewDynamicSessionWithONNXData[in TensorData, out TensorData](onnxData []byte, inputNames,
	outputNames []string) (*DynamicSession[in, out], error) {
	s, err := NewDynamicAdvancedSessionWithONNXData(onnxData, inputNames, outputNames, nil)
	if err != nil {
		return nil, err
	}
	return &DynamicSession[in, out]{s}, nil
}

// Run runs the model, as [DynamicAdvancedSession.Run] does.
func (s *DynamicSession[in, out]) Run(inputs []*Tensor[in], outputs []*Tensor[out]) error {
	values := valuesOf(outputs)
	if err := s.s.Run(valuesOf(inputs), values); err != nil {
		return err
	}
	for i, v := range values {
		t, ok := v.(*Tensor[out])
		if !ok {
			return fmt.Errorf("output %d has %v, not %v", i, v.DataType(), GetTensorElementDataType[out]())
		}
		outputs[i] = t
	}
	return nil
}

// Destroy frees the session.
func (s *DynamicSession[_, _]) Destroy() error { return s.s.Destroy() }

// TrainingAPIRemovedError is the error of all functions for training.
var TrainingAPIRemovedError error = errors.New("there is no API for training: it was removed from onnxruntime_go after v1.12.1")

// IsTrainingSupported returns false.
func IsTrainingSupported() bool { return false }

// TrainingSession is absent.
type TrainingSession struct{}

// TrainingInputOutputNames is absent.
type TrainingInputOutputNames struct {
	TrainingInputNames  []string
	EvalInputNames      []string
	TrainingOutputNames []string
	EvalOutputNames     []string
}

// The following functions and methods return [TrainingAPIRemovedError].

func GetInputOutputNames(checkpointStatePath string, trainingModelPath string,
	evalModelPath string) (*TrainingInputOutputNames, error) {
	return nil, TrainingAPIRemovedError
}
func NewTrainingSession(checkpointStatePath, trainingModelPath, evalModelPath, optimizerModelPath string, inputs,
	outputs []Value, options *SessionOptions) (*TrainingSession, error) {
	return nil, TrainingAPIRemovedError
}
func NewTrainingSessionWithOnnxData(checkpointData, trainingData, evalData, optimizerData []byte, inputs,
	outputs []Value, options *SessionOptions) (*TrainingSession, error) {
	return nil, TrainingAPIRemovedError
}
func (s *TrainingSession) TrainStep() error     { return TrainingAPIRemovedError }
func (s *TrainingSession) OptimizerStep() error { return TrainingAPIRemovedError }
func (s *TrainingSession) LazyResetGrad() error { return TrainingAPIRemovedError }
func (s *TrainingSession) Destroy() error       { return TrainingAPIRemovedError }
func (s *TrainingSession) SaveCheckpoint(path string, saveOptimizerState bool) error {
	return TrainingAPIRemovedError
}
func (s *TrainingSession) ExportModel(path string, outputNames []string) error {
	return TrainingAPIRemovedError
}
