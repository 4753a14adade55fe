import entry from './fake.js';

export const { fakeDatabase } = entry;
