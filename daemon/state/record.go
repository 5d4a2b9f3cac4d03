package state

func sealRecord(name string, r Record) ([]byte, error) { return sealJSON(name, &r) }

func unsealRecord(name string, sealed []byte) (r Record, err error) {
	err = unsealJSON(name, sealed, &r)
	return r, err
}

// RecordIn decodes a value of [Records]. The name is empty if the value is not a record.
func RecordIn(key string, value []byte) (name string, r Record, err error) {
	at, ok := slotOf(key)
	if !ok || at.bucket != string(autoscalersBucket) || value == nil {
		return "", Record{}, nil
	}
	r, err = unsealRecord(at.key, value)
	return at.key, r, err
}
