package redact

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Core returns a core that removes secrets from messages and fields before it writes them to
// another core.
func Core(core zapcore.Core) zapcore.Core { return redactingCore{core} }

type redactingCore struct{ zapcore.Core }

// With returns a core that adds fields.
func (c redactingCore) With(fields []zapcore.Field) zapcore.Core {
	return redactingCore{c.Core.With(redactFields(fields))}
}

// Check adds the core to an entry if the core is enabled for the entry's level.
func (c redactingCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write writes an entry.
func (c redactingCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	entry.Message = Text(entry.Message)
	return c.Core.Write(entry, redactFields(fields))
}

func redactFields(fields []zapcore.Field) []zapcore.Field {
	shown := make([]zapcore.Field, len(fields))
	for i, field := range fields {
		shown[i] = redactField(field)
	}
	return shown
}

// redactField returns a field without secrets. A field that may contain strings in a nested value
// is converted to maps and slices.
func redactField(field zapcore.Field) zapcore.Field {
	switch field.Type {
	case zapcore.StringType:
		field.String = Value(field.Key, field.String)
		return field
	case zapcore.ErrorType:
		if err, ok := field.Interface.(error); ok {
			return zap.String(field.Key, Text(err.Error()))
		}
	case zapcore.StringerType, zapcore.ByteStringType, zapcore.ReflectType, zapcore.ArrayMarshalerType, zapcore.ObjectMarshalerType, zapcore.InlineMarshalerType:
		encoder := zapcore.NewMapObjectEncoder()
		field.AddTo(encoder)
		if inner, ok := encoder.Fields[field.Key]; ok {
			return zap.Any(field.Key, redactAny(field.Key, inner))
		}
	}
	return field
}

// redactAny returns a value without secrets. It accepts the types that zap's map encoder produces.
func redactAny(name string, value any) any {
	switch value := value.(type) {
	case string:
		return Value(name, value)
	case []any:
		shown := make([]any, len(value))
		for i := range value {
			shown[i] = redactAny(name, value[i])
		}
		return shown
	case map[string]any:
		shown := make(map[string]any, len(value))
		for key := range value {
			inner := key
			if Named(name) {
				inner = name // a secret name applies to everything below it
			}
			shown[key] = redactAny(inner, value[key])
		}
		return shown
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, nil:
		return value
	}
	return Text(fmt.Sprintf("%+v", value)) // include the names of fields
}
